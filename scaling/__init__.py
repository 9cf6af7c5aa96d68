"""What carries from the proxy to the target, and how surely; never imports torch.

::

    scaling.priors       published laws; where the search over learning rates is centred
    scaling.scale        the two sides of a transfer and their ratios
    scaling.transfer     a configuration to the target, a recipe to the proxy
    scaling.lr_range     the range of rates searched on the proxy
    scaling.noise        how far two runs of one configuration differ
    scaling.selection    finalists, the best with their ties, the verdict
    scaling.checks       what makes a plan weak or a finished sweep vacuous
"""
