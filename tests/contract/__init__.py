"""What every query of every method, the curator and the driver must keep to: checks shared by tests and by mutants.

A check is a function without a verdict of its own: it returns when the code keeps the promise, and raises
AssertionError, saying which promise, when it does not. `tests/mutants` runs the same functions against the defects they
are there to find. The modules lie as the rooms in src/ do.
"""

from contract.accounting import check_replace_one_costs_more
from contract.certificate import check_full_batch_claims
from contract.data import (
    NAMES,
    NUMBERS,
    SCHEMA,
    TABLE,
    adversaries,
    class_means,
    fitting,
    insert,
    known,
    make_records,
    replace,
    subset,
    table_records,
    toy_records,
)
from contract.evaluate import check_score_is_the_final_iterate, check_test_classes_by_name
from contract.methods.counts import check_count_norms
from contract.methods.generators import check_rare_classes_are_not_drowned
from contract.methods.ghost import (
    LINEAR,
    PLAIN_KERNELS,
    check_ghost_norms,
    check_ghost_rows_stand_alone,
    check_ghost_sensitivity,
    check_steps_without_the_clip_norm,
    linear_queries,
    plain_gradients,
    support_images,
)
from contract.methods.small import (
    ALL,
    DEFAULT,
    OTHERS,
    SCATTER,
    PixelKernel,
    asked,
    chosen_variants,
    flattened,
    forget_queries,
    is_sampling_prob,
    queries_of,
    release_shape,
    rounds_of,
    small_parts,
    tiny,
    variants,
)
from contract.private.curators import (
    NOISE,
    NoNoise,
    OnlyCoins,
    full_batches,
    grid_of,
    integer_sum,
    make_curator,
    memory_ledger,
    norm,
)
from contract.private.linear import (
    EXACT,
    check_error_bound,
    check_ghost_noise_scale,
    check_linear_is_plain,
    check_linear_sensitivity,
    coefficients_of,
    contributions,
    exact,
    norms_of,
    rows_of,
    squared,
)
from contract.private.queries import (
    CountQuery,
    FlatLinear,
    FlatQuery,
    Halve,
    MixingEncoder,
    MixingRows,
    UnitQuery,
    ZeroQuery,
)
from contract.private.rounds import (
    check_batches_are_poisson,
    check_blocks_of_coins,
    check_noise_scale,
    check_release_is_the_committed_one,
    check_release_on_grid,
    check_resumed_rounds_draw_anew,
    check_round_is_drawn_once,
    check_rounds_are_independent,
)
from contract.private.silence import (
    FAILED,
    check_errors_say_nothing,
    check_ledger_holds_no_plain_sum,
    check_nothing_is_pickled,
    check_releases_are_silent,
    check_speech_is_refused,
)
from contract.private.sums import (
    check_add_remove,
    check_adversarial_records,
    check_encoders_see_one_record,
    check_features,
    check_places,
    check_replace_one,
    check_replace_one_is_paid,
    check_replacements,
    check_sums_not_means,
)
from contract.private.units import (
    check_clip_is_shared,
    check_coins_by_unit,
    check_kept_rows,
    check_others_of_a_unit_stay,
    check_unit_sensitivity,
    check_units_are_admitted_whole,
    of_units,
    unit_schedule,
)
from contract.run import Stop, check_noise_is_nobodys_seed, check_only_releases_speak, stop_after
from contract.workers import check_coins_of_workers
