"""What can only go wrong at run time, in one enumeration."""

import equinox as eqx


class RESULTS(eqx.Enumeration):
    """How a selection or a run ended. Raised once, at the entry point."""

    successful = ""
    nonfinite_residual = (
        "a residual is NaN or infinite at some candidate point: check the operators "
        "and targets at the faces of their domains, or lower the learning rate."
    )
    nonfinite_embedding = (
        "candidates have a NaN or infinite embedding, so too few can be chosen: check "
        "that the residual has finite derivatives by the network's parameters there "
        "(√, |·| and norms at 0 have none, nor has `jnp.where` with NaN in the branch "
        "that is not taken), and that the criterion gives finite numbers."
    )
    nonfinite_loss = (
        "the training loss became NaN or infinite: lower the learning rate, or check "
        "the operators and targets at the faces of their domains."
    )
    pool_exhausted = (
        "fewer candidates could be chosen than the budget asks for: enlarge the pool, "
        "lower the budget or lower `min_per_kind`."
    )
    unlawful_selection = (
        "the selector chose a candidate twice or one that is not available, fewer than "
        "it could, or gave a weight that is negative or not finite: "
        "`pinnacle.testing.check_selector` says which law it breaks."
    )
    refused = (
        "the optimiser refused many steps in a row, the last of them on points just "
        "chosen: no step length lowered the loss at any damping tried."
    )
    oracle_failed = (
        "a measurement failed: the oracle raised an error, or did not return finite "
        "numbers of the right shape."
    )
    interrupted = "the run was interrupted before its last step."
