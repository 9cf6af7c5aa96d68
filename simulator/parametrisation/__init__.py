"""One rule per tensor: how initial scale, learning rate and decay follow the width.

Every tensor is treated by its own fan-in, not by the model's width. For a matrix the initial
standard deviation goes as fan_in^-1/2 and Adam's learning rate as 1/fan_in; its decay coefficient
is multiplied by the inverse, so that learning rate times decay is the same at every width.
Embeddings, gains and biases keep learning rate and initial scale.

Where hidden matrices are trained by Muon, their update is orthogonal: its spectral norm is known
and goes as sqrt(fan_out/fan_in), at a learning rate that the width does not change. Embedding,
head, router, gains and biases keep AdamW's rules.

References
----------
Spectral condition: arXiv 2310.17813, sections 2 and 3. Adam's table: arXiv 2203.03466, table 3.
Standard parametrisation with full-alignment learning rates: arXiv 2407.05872. Decay: arXiv
2405.13698 and 2510.19093. The closest use, a 560 B MoE tuned at 1/8 width: arXiv 2509.01322.
Muon: arXiv 2310.17813, section 3; 2512.05620 (width); 2502.16982, section 2.2 (size of the update).
"""

from simulator.parametrisation.rule import FanIns, MuonMatrix, MuonRule, TensorRule
from simulator.parametrisation.table import logit_factor, rule_table, tensor_rule

__all__ = [
    "FanIns",
    "MuonMatrix",
    "MuonRule",
    "TensorRule",
    "logit_factor",
    "rule_table",
    "tensor_rule",
]
