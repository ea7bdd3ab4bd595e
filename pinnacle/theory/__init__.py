"""The quantities of the paper's theory, as pure functions of arrays."""

from .alignment import (
    cumulative_power as cumulative_power,
    kernel_target_alignment as kernel_target_alignment,
    reconstruction as reconstruction,
    reconstruction_error as reconstruction_error,
)
from .dynamics import (
    Linearised as Linearised,
    Window as Window,
    decay_rates as decay_rates,
    descend as descend,
    elsewhere as elsewhere,
    gradient_descent as gradient_descent,
    gradient_flow as gradient_flow,
    half_loss as half_loss,
    kernel_drift as kernel_drift,
    limit as limit,
    linearisation_gap as linearisation_gap,
    one_step_change as one_step_change,
    one_step_remainder as one_step_remainder,
    training_window as training_window,
)
from .generalisation import (
    Constants as Constants,
    eigenvalue_range as eigenvalue_range,
    generalisation_bound as generalisation_bound,
    generalisation_constants as generalisation_constants,
    gradient_bound as gradient_bound,
    in_domain_bound as in_domain_bound,
    linearisation_bound as linearisation_bound,
    low_density_measure as low_density_measure,
    rademacher_ball as rademacher_ball,
    rademacher_bound as rademacher_bound,
    rademacher_trace_bound as rademacher_trace_bound,
    rademacher_trajectory as rademacher_trajectory,
    stability_constant as stability_constant,
)
from .kernel import (
    blocks_at as blocks_at,
    cross_operator as cross_operator,
    jacobian as jacobian,
    kernel as kernel,
    ntk_operator as ntk_operator,
    operate as operate,
    residual_function as residual_function,
    row_kinds as row_kinds,
    solve as solve,
)
from .movement import (
    movement as movement,
    movement_bound as movement_bound,
    movement_limit as movement_limit,
    parameter_change as parameter_change,
)
from .nystrom import (
    alpha_error_bound as alpha_error_bound,
    coherence as coherence,
    effective_rank as effective_rank,
    nystrom_alpha as nystrom_alpha,
    nystrom_error as nystrom_error,
    nystrom_kernel as nystrom_kernel,
    nystrom_trace_share as nystrom_trace_share,
    reference_size as reference_size,
    spectral_error_bound as spectral_error_bound,
    trace_share as trace_share,
)
from .rkhs import (
    EigenSystem as EigenSystem,
    alignments as alignments,
    alpha_from_gradient as alpha_from_gradient,
    alpha_from_kernel as alpha_from_kernel,
    alpha_from_norm as alpha_from_norm,
    alpha_from_spectrum as alpha_from_spectrum,
    coefficients as coefficients,
    eigensystem as eigensystem,
    inner_product as inner_product,
    mercer as mercer,
    residual_change as residual_change,
    squared_norm as squared_norm,
)
from .weights import (
    kernel_traces as kernel_traces,
    ntk_weights as ntk_weights,
    with_ntk_weights as with_ntk_weights,
)
