import torch

from simulator.model.linear import Embedding, embed, linear, stack_offsets


def test_every_model_of_a_stack_uses_its_own_weight_and_bias() -> None:
    x, weight, bias = torch.randn(2, 5, 3), torch.randn(2, 4, 3), torch.randn(2, 4)
    rows = [linear(x[k], weight[k], bias[k]) for k in range(2)]
    torch.testing.assert_close(linear(x, weight, bias), torch.stack(rows))


def test_every_model_of_a_stack_looks_up_its_own_table() -> None:
    tables, ids = torch.randn(2, 3, 7, 4), torch.randint(7, (5,))
    expected = tables[:, :, ids]
    assert torch.equal(embed(ids, tables), expected)
    own = torch.randint(7, (2, 3, 5))
    assert torch.equal(embed(own, tables)[1, 2], tables[1, 2][own[1, 2]])
    assert torch.equal(embed(ids, tables[0, 0]), expected[0, 0])


def test_offsets_have_the_shape_of_the_stack() -> None:
    cpu = torch.device("cpu")
    assert stack_offsets(torch.Size(), 8, cpu).shape == ()
    assert stack_offsets(torch.Size([2, 3]), 8, cpu).flatten().tolist() == [0, 8, 16, 24, 32, 40]


def test_a_tied_table_is_its_own_head() -> None:
    table = Embedding(6, 4)
    with torch.no_grad():
        table.weight.normal_()
    x = torch.randn(3, 4)
    torch.testing.assert_close(table(x, as_head=True), x @ table.weight.T)
