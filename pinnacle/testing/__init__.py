"""The laws of every concept, for third parties to run on their own classes."""

from ._criterion import check_criterion as check_criterion
from ._domain import check_domain as check_domain
from ._estimator import (
    EstimatorCase as EstimatorCase,
    check_estimator as check_estimator,
    draw_estimator_case as draw_estimator_case,
)
from ._operator import check_operator as check_operator
from ._retention import check_retention as check_retention
from ._sampler import check_sampler as check_sampler
from ._selector import (
    check_d2_sampling as check_d2_sampling,
    check_selection as check_selection,
    check_selector as check_selector,
    check_successive_sampling as check_successive_sampling,
)
from ._strategies import (
    candidates as candidates,
    draw_candidates as draw_candidates,
    draw_pool_info as draw_pool_info,
    draw_training_set as draw_training_set,
    pool_infos as pool_infos,
    training_sets as training_sets,
)
from ._trigger import check_trigger as check_trigger
