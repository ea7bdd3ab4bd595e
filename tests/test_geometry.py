"""Domains and faces: a table of domains crossed with the laws that hold on all."""

import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from pinnacle._geometry import (
    AbstractDomain,
    AbstractFace,
    AbstractRegion,
    Box,
    BoxFaces,
    FiniteSet,
    InitialFace,
    Interval,
    LateralFaces,
    PeriodicFace,
    SpaceTime,
)
from pinnacle._geometry.box import as_floats, as_number
from pinnacle._sampler import Sobol, Uniform
from pinnacle.testing import check_domain


class Disk(AbstractRegion):
    """A third-party region."""

    radius: float = eqx.field(static=True)

    @property
    def dim(self):
        return 2

    @property
    def dof(self):
        return 2

    @property
    def measure(self):
        return math.pi * self.radius**2

    @property
    def bounds(self):
        return ((-self.radius,) * 2, (self.radius,) * 2)

    @property
    def time_axis(self):
        return None

    def from_unit(self, unit):
        r = (1 - 1e-6) * self.radius * jnp.sqrt(unit[:, 0])
        angle = 2 * jnp.pi * unit[:, 1]
        return jnp.stack([r * jnp.cos(angle), r * jnp.sin(angle)], axis=1)

    def contains(self, x):
        return jnp.sum(x**2, axis=1) <= self.radius**2 * (1 + 1e-6)

    def boundary(self, axis=None, side=None):
        return Circle(self)


class Circle(AbstractFace):
    """A third-party face."""

    disk: Disk

    @property
    def region(self):
        return self.disk

    @property
    def dim(self):
        return 2

    @property
    def dof(self):
        return 1

    @property
    def measure(self):
        return 2 * math.pi * self.disk.radius

    @property
    def bounds(self):
        return self.disk.bounds

    @property
    def time_axis(self):
        return None

    def from_unit(self, unit):
        angle = 2 * jnp.pi * unit[:, 0]
        x = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
        return x * ((1 - 1e-7) * self.disk.radius)

    def contains(self, x):
        r = jnp.linalg.norm(x, axis=1)
        return jnp.abs(r - self.disk.radius) <= 1e-5 * self.disk.radius

    def normal(self, x):
        return x / jnp.linalg.norm(x)


LINE = Interval(-1, 0.7)
PLANE = Box((0.1, -2.0), (0.7, 1.0))  # 0.6 × 3
SOLID = Box([0.0, -1.0, 0.3], [1.0, 1.0, 3.3])  # 1 × 2 × 3
DISK = Disk(1.5)
ROD = SpaceTime(LINE, 0.1, 2.1)
SHEET = SpaceTime(PLANE, 0.0, 2.0)
DRUM = SpaceTime(DISK, 0.0, 3.0)

# name: domain, dim, dof, measure, fixed axes, time axis
DOMAINS = {
    "line": (LINE, 1, 1, 1.7, (), None),
    "line-end": (LINE.boundary(0, "upper"), 1, 0, 1.0, (0,), None),
    "line-ends": (LINE.boundary(), 1, 1, 2.0, (), None),
    "line-periodic": (LINE.periodic(0), 1, 0, 1.0, (0,), None),
    "plane": (PLANE, 2, 2, 1.8, (), None),
    "plane-side": (PLANE.boundary(0, "lower"), 2, 1, 3.0, (0,), None),
    "plane-sides": (PLANE.boundary(1), 2, 1, 1.2, (), None),
    "plane-all": (PLANE.boundary(), 2, 1, 7.2, (), None),
    "plane-periodic": (PLANE.periodic(1), 2, 1, 0.6, (1,), None),
    "solid": (SOLID, 3, 3, 6.0, (), None),
    "solid-side": (SOLID.boundary(1, "upper"), 3, 2, 3.0, (1,), None),
    "solid-all": (SOLID.boundary(), 3, 2, 22.0, (), None),
    "disk": (DISK, 2, 2, 2.25 * math.pi, (), None),
    "disk-all": (DISK.boundary(), 2, 1, 3 * math.pi, (), None),
    "rod": (ROD, 2, 2, 3.4, (), 1),
    "rod-initial": (ROD.initial(), 2, 1, 1.7, (1,), 1),
    "rod-end": (ROD.boundary(0, "lower"), 2, 1, 2.0, (0,), 1),
    "rod-ends": (ROD.boundary(), 2, 2, 4.0, (), 1),
    "rod-periodic": (ROD.periodic(0), 2, 1, 2.0, (0,), 1),
    "sheet": (SHEET, 3, 3, 3.6, (), 2),
    "sheet-initial": (SHEET.initial(), 3, 2, 1.8, (2,), 2),
    "sheet-all": (SHEET.boundary(), 3, 2, 14.4, (), 2),
    "sheet-periodic": (SHEET.periodic(1), 3, 2, 1.2, (1,), 2),
    "drum": (DRUM, 3, 3, 6.75 * math.pi, (), 2),
    "drum-initial": (DRUM.initial(), 3, 2, 2.25 * math.pi, (2,), 2),
    "drum-all": (DRUM.boundary(), 3, 2, 9 * math.pi, (), 2),
}
FACES = {k: v[0] for k, v in DOMAINS.items() if isinstance(v[0], AbstractFace)}


@pytest.fixture(params=DOMAINS)
def domain(request) -> AbstractDomain:
    return DOMAINS[request.param][0]


@pytest.fixture(params=FACES)
def face(request) -> AbstractFace:
    return FACES[request.param]


@partial(jax.jit, static_argnums=(0, 1, 2))
def unit_points(sampler, n, dim, seed):
    return sampler.unit(n, dim, key=jax.random.key(seed))


@partial(jax.jit, static_argnums=0)
def place(domain, unit):
    return domain.from_unit(unit)


@partial(jax.jit, static_argnums=0)
def place_and_look(domain, unit):
    x = domain.from_unit(unit)
    return x, domain.contains(x)


def draw(domain, n=256, sampler=None, seed=0):
    return place(domain, unit_points(sampler or Uniform(), n, domain.dof, seed))


def extreme(dof, dtype):
    """All corners of the unit cube, the upper ones as near to 1 as numbers go."""
    ends = [0.0, np.nextafter(1, 0, dtype=dtype)]
    corners = np.array(np.meshgrid(*[ends] * dof)).reshape(dof, 2**dof)
    return jnp.asarray(corners.T, dtype)


@pytest.mark.parametrize("name", DOMAINS)
def test_numbers_against_hand_computed_ones(name):
    domain, dim, dof, measure, fixed, time = DOMAINS[name]
    assert (domain.dim, domain.dof) == (dim, dof)
    assert domain.measure == pytest.approx(measure, rel=1e-14)
    assert domain.fixed_axes == fixed
    assert domain.time_axis == time
    assert len(domain.bounds[0]) == len(domain.bounds[1]) == dim


@pytest.mark.parametrize("name", ["line-end", "plane-all", "rod-periodic", "drum-all"])
def test_laws(name):
    check_domain(DOMAINS[name][0])


class Leaky(eqx.Module):
    """A box that says something else about itself."""

    lies: dict = eqx.field(static=True)

    def __getattr__(self, name):
        return self.lies.get(name, getattr(PLANE, name))


@pytest.mark.parametrize(
    ("lies", "message"),
    [
        ({"measure": 0.0}, "`measure` is 0"),
        ({"from_unit": lambda unit: 4 * unit}, "leaves `bounds`"),
        ({"contains": lambda x: x[:, 0] > 9}, "denies"),
        ({"contains": lambda x: x[:, 0] > -9}, "accepts"),
    ],
)
def test_the_laws_catch_what_is_wrong(lies, message, no_type_checks):
    with pytest.raises(AssertionError, match=message):
        check_domain(Leaky(lies))  # pyright: ignore


def test_points_lie_inside_exactly(domain, both_precisions):
    dtype = np.float64 if both_precisions else np.float32
    drawn = unit_points(Uniform(), 256, domain.dof, 0)
    unit = np.concatenate([drawn, extreme(domain.dof, dtype)])
    x, inside = place_and_look(domain, unit)
    assert x.dtype == dtype
    assert x.shape[1] == domain.dim
    assert inside.all()
    x, (lower, upper) = np.asarray(x), (np.asarray(b, dtype) for b in domain.bounds)
    assert (x >= lower).all()
    assert (x <= upper).all()
    for axis in domain.fixed_axes:
        assert (x[:, axis] == lower[axis]).all()


def test_points_of_regions_are_inside_before_the_bounds_are_rounded(domain):
    """0.1 is no float32: the points are above 0.1, not above the nearest float32."""
    if isinstance(domain, AbstractFace):
        return
    x = np.asarray(domain.from_unit(extreme(domain.dof, np.float32)), np.float64)
    lower, upper = np.asarray(domain.bounds)
    assert ((x >= lower) & (x <= upper)).all()


def test_contains_refuses_what_is_outside(domain):
    x = np.asarray(draw(domain))
    lower, upper = np.asarray(domain.bounds)
    for axis in range(domain.dim):
        for end, sign in ((lower, -1), (upper, 1)):
            out = x.copy()
            out[:, axis] = end[axis] + sign * 1e-3
            assert not domain.contains(jnp.asarray(out)).any()


def test_contains_knows_a_face_from_the_inside(face):
    x = draw(face)
    inwards = x - 1e-2 * jax.vmap(face.normal)(x)
    # Next to an edge, the inside of one face may lie on another.
    assert np.mean(face.contains(inwards)) < 0.1
    assert np.mean(face.region.contains(inwards)) > 0.9


def test_the_mean_is_the_centre(domain):
    """All domains of the table are symmetric about the centre of their bounds, or
    lie across an axis."""
    x = draw(domain, 4096, Sobol())
    lower, upper = np.asarray(domain.bounds)
    assert np.abs(np.mean(x, 0) - (lower + upper) / 2).max() < 2e-3


def test_uniform_goes_to_uniform():
    """Pearson's test on equal parts of each face of PLANE and SOLID."""
    for box, parts in ((PLANE, 4), (SOLID, 2)):
        faces = box.boundary()
        x = np.asarray(draw(faces, 20_000, seed=3))
        cell = (x - box.lower) / np.asarray(box.width) * parts
        cell = np.minimum(cell.astype(int), parts - 1)
        observed, expected = [], []
        for (axis, side), share in zip(faces.faces, faces.measures, strict=True):
            on = x[:, axis] == np.float32(getattr(box, side)[axis])
            others = [i for i in range(box.dim) if i != axis]
            index = cell[on][:, others] @ parts ** np.arange(box.dim - 1)
            count = parts ** (box.dim - 1)
            observed.append(np.bincount(index, minlength=count))
            expected.append(np.full(count, len(x) * share / faces.measure / count))
        observed, expected = np.concatenate(observed), np.concatenate(expected)
        assert stats.chisquare(observed, expected).pvalue > 1e-3


@pytest.mark.parametrize("name", ["plane", "solid", "rod", "sheet", "disk", "drum"])
def test_regions_are_filled_uniformly(name):
    """The smaller box or disk of half the width holds its share of the measure."""
    domain = DOMAINS[name][0]
    x = np.asarray(draw(domain, 4096, Sobol()))
    lower, upper = np.asarray(domain.bounds)
    y = 2 * np.abs(x - (lower + upper) / 2) / (upper - lower)
    inner = np.all(y < 0.5, axis=1)
    if domain in (DISK, DRUM):
        inner = (np.hypot(y[:, 0], y[:, 1]) < 0.5) & np.all(y[:, 2:] < 0.5, axis=1)
    assert np.mean(inner) == pytest.approx(0.5**domain.dim, abs=5e-3)


def test_a_union_keeps_low_discrepancy():
    """Sobol points on the four sides: each gets its share, give or take two points, and
    on each the gaps are near the mean gap."""
    faces = PLANE.boundary()
    x = np.asarray(draw(faces, 256, Sobol(), seed=2))
    for (axis, side), share in zip(faces.faces, faces.measures, strict=True):
        on = x[:, axis] == np.float32(getattr(PLANE, side)[axis])
        assert abs(on.sum() - 256 * share / faces.measure) < 2
        along = np.sort(x[on, 1 - axis])
        assert np.diff(along).max() < 2.1 * PLANE.width[1 - axis] / on.sum()


def test_ends_of_an_interval_are_equally_likely():
    x = draw(LINE.boundary(), 1024, Sobol())
    assert sorted(set(np.asarray(x)[:, 0].tolist())) == [-1, np.float32(0.7)]
    assert int((x[:, 0] == -1).sum()) == 512


def test_normals_point_out(face):
    x = draw(face, 64)
    normal = jax.jit(jax.vmap(face.normal))(x)
    assert normal.shape == x.shape
    assert normal.dtype == x.dtype
    np.testing.assert_allclose(np.linalg.norm(normal, axis=1), 1, rtol=1e-6)
    assert not face.region.contains(x + 1e-3 * normal).any()
    assert np.mean(face.region.contains(x - 1e-3 * normal)) > 0.95
    if face.time_axis is not None and face.time_axis not in face.fixed_axes:
        assert (normal[:, face.time_axis] == 0).all()


def test_normals_of_the_sides_of_a_box():
    x = jnp.array([[0.1, 0.0], [0.7, 0.0], [0.3, -2.0], [0.3, 1.0]])
    expected = [[-1, 0], [1, 0], [0, -1], [0, 1]]
    np.testing.assert_array_equal(jax.vmap(PLANE.boundary().normal)(x), expected)
    corner = PLANE.boundary().normal(jnp.array([0.7, 1.0]))
    assert sorted(corner.tolist()) == [0, 1]


def test_the_initial_face_has_no_spatial_normal():
    np.testing.assert_array_equal(
        SHEET.initial().normal(jnp.array([0.2, 0.0, 0.0])), [0, 0, -1]
    )
    assert SHEET.initial().time_axis in SHEET.initial().fixed_axes


@pytest.mark.parametrize("name", [k for k in FACES if "periodic" in k])
def test_images_of_periodic_points_lie_on_the_other_side(name, both_precisions):
    face = FACES[name]
    x = draw(face)
    image = x.at[:, face.axis].add(face.period)
    assert face.region.contains(image).all()
    assert face.region.boundary(face.axis, "upper").contains(image).all()
    assert face.period == face.region.bounds[1][face.axis] - face.bounds[0][face.axis]


def test_domains_are_static(domain):
    """No arrays inside: a domain built again is equal, hashes alike, compiles once."""
    assert jax.tree.leaves(domain) == []
    assert hash(domain) == hash(eqx.tree_at(lambda d: (), domain, ()))

    @eqx.filter_jit
    @eqx.debug.assert_max_traces(max_traces=1)
    def sample(domain, unit):
        return domain.from_unit(unit)

    unit = Uniform().unit(8, domain.dof, key=jax.random.key(0))
    np.testing.assert_allclose(
        sample(domain, unit), domain.from_unit(unit), rtol=1e-6, atol=1e-6
    )
    sample(domain, unit + 0)


def test_faces_are_named_by_what_they_are():
    assert isinstance(PLANE.boundary(), BoxFaces)
    assert isinstance(ROD.boundary(), LateralFaces)
    assert isinstance(ROD.initial(), InitialFace)
    assert isinstance(ROD.periodic(0), PeriodicFace)
    assert Interval(0, 1) == Box((0,), (1,))
    assert PLANE.boundary(0, "upper").faces == ((0, "upper"),)
    assert PLANE.boundary(1).faces == ((1, "lower"), (1, "upper"))
    assert len(SOLID.boundary().faces) == 6


numbers = st.floats(-1e6, 1e6, allow_subnormal=False, width=32)
units = st.lists(st.floats(0, 1, exclude_max=True, width=32), min_size=8, max_size=8)


@settings(max_examples=25, deadline=None)
@given(numbers, st.floats(1e-3, 1e6), numbers, st.floats(1e-3, 1e6), units)
def test_rounding_never_leaves_the_box(a, width_a, b, width_b, unit):
    box = Box((a, b), (a + width_a, b + width_b))
    unit = jnp.asarray(unit, jnp.float32).reshape(4, 2)
    x = box.from_unit(unit)
    assert box.contains(x).all()
    lower, upper = np.asarray(box.bounds, np.float32)
    assert ((lower <= np.asarray(x)) & (np.asarray(x) <= upper)).all()
    edge = np.asarray(box.boundary(0, "upper").from_unit(unit[:, :1]))
    assert (edge[:, 0] == upper[0]).all()
    around = box.boundary().from_unit(unit[:, :1])
    assert box.boundary().contains(around).all()
    assert ((lower == np.asarray(around)) | (upper == np.asarray(around))).any(1).all()


INF, NAN = math.inf, math.nan

BAD = {
    "swapped": (lambda: Box((0, 1), (1, 0.5)), r"`upper\[1\]` must be larger.*0\.5"),
    "equal": (lambda: Box((0,), (0,)), r"`upper\[0\]` must be larger"),
    "infinite": (lambda: Box((0,), (INF,)), r"`upper\[0\]` must be finite, got inf"),
    "nan": (lambda: Box((NAN,), (1,)), r"`lower\[0\]` must be finite, got nan"),
    "too wide": (lambda: Box((-1e308,), (1e308,)), "finite positive width"),
    "lengths": (lambda: Box((0, 0), (1,)), r"same length.*\(0\.0, 0\.0\)"),
    "empty": (lambda: Box((), ()), "at least 1"),
    "interval": (lambda: Interval(1, 0), r"`upper` must be larger than `lower`"),
    "scalar": (lambda: as_floats("lower", 0.0), r"`lower` must be a sequence.*Inter"),
    "word": (lambda: as_number("upper", "one"), r"`upper` must be a number, got 'one'"),
    "axis": (lambda: PLANE.boundary(2), r"`axis` must be one of \[0, 1\], got 2"),
    "negative": (lambda: PLANE.boundary(-1), r"`axis` must be one of \[0, 1\], got -1"),
    "side": (lambda: PLANE.boundary(0, "left"), r'`side` must be "lower".*\'left\''),
    "side only": (lambda: PLANE.boundary(side="lower"), "needs an `axis`"),
    "periodic": (lambda: PLANE.periodic(2), r"`axis` must be one of \[0, 1\], got 2"),
    "times": (lambda: SpaceTime(LINE, 1, 0), "`t_upper` must be larger than `t_low"),
    "two times": (lambda: SpaceTime(ROD, 0, 1), "`space` must have no time axis"),
    "time side": (lambda: ROD.boundary(1, "lower"), r"`axis`=1 is the time.*initial"),
    "time period": (lambda: ROD.periodic(1), "`axis`=1 is the time"),
    "no such axis": (lambda: ROD.periodic(5), r"`axis` must be one of \[0\], got 5"),
    "round period": (lambda: DRUM.periodic(0), "is not a box"),
    "no boundary": (lambda: SpaceTime(LINE.boundary(), 0, 1).boundary(), "no boundary"),
    "no faces": (lambda: BoxFaces(PLANE, ()), "`faces` must be distinct"),
    "face twice": (lambda: BoxFaces(LINE, ((0, "lower"),) * 2), "must be distinct"),
    "complex": (lambda: FiniteSet([[1j, 1]]), "`x` holds complex128: give real"),
    "long period": (
        lambda: PeriodicFace(LINE.boundary(0, "lower"), 0, 2.0),
        r"`period`=2\.0 takes the face to the coordinate 1\.0",
    ),
    "no period": (
        lambda: PeriodicFace(LINE.boundary(0, "lower"), 0, 0.0),
        "another one",
    ),
    "along the face": (
        lambda: PeriodicFace(PLANE.boundary(0, "lower"), 1, 1.0),
        r"`axis`=1 must be one that `face` lies across, which are \[0\]",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_static_mistakes_are_refused(name):
    build, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        build()
