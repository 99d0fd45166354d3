# SPDX-License-Identifier: BSD-3-Clause

"""Rough terrain against its formulas, worked out by hand, and against MuJoCo's rays."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import mujoco
import numpy as np
import pytest

from rsl_rl_sac.locomotion import terrain as terrain_module
from rsl_rl_sac.locomotion.terrain import SUB_TERRAINS, Terrain, TerrainCfg, scan_points
from rsl_rl_sac.utils.errors import ConfigError

ROUGH_AND_SLOPES = ("random_rough", "pyramid_slope", "inverted_pyramid_slope")


def make(name: str, difficulty: float, cfg: TerrainCfg | None = None, seed: int = 0) -> tuple[np.ndarray, float]:
    """Make one tile."""
    return SUB_TERRAINS[name](cfg or TerrainCfg(), difficulty, np.random.default_rng(seed))


@pytest.fixture(scope="module")
def terrain() -> Terrain:
    """Return the terrain of the large robots."""
    return Terrain(TerrainCfg(), seed=3)


@pytest.fixture(scope="module")
def fine_terrain() -> Terrain:
    """Return the same terrain with cells half as wide."""
    return Terrain(TerrainCfg(cell=0.05), seed=3)


@pytest.mark.parametrize(("difficulty", "step"), [(0.0, 0.05), (0.5, 0.14), (1.0, 0.23)])
def test_pyramid_stairs(difficulty: float, step: float) -> None:
    """Six rings, 0.3 m wide, begin 1 m from the edge; the plate of 2.4 m is the seventh step."""
    heights, origin = make("pyramid_stairs", difficulty)
    assert heights.shape == (81, 81)
    # Tenths of a metre from the edge, and the number of steps up to there.
    along_x = {0: 0, 9: 0, 10: 1, 12: 1, 13: 2, 15: 2, 16: 3, 19: 4, 22: 5, 25: 6, 27: 6, 28: 7, 40: 7, 52: 7, 53: 6}
    along_x |= {55: 6, 56: 5, 67: 2, 68: 1, 70: 1, 71: 0, 80: 0}
    for tenths, steps in along_x.items():
        assert heights[tenths, 40] == pytest.approx(steps * step)
        assert heights[40, tenths] == pytest.approx(steps * step)
    assert heights[13, 10] == pytest.approx(step)  # the nearer edge counts
    assert heights[27, 28] == pytest.approx(6 * step)
    assert heights[28, 28] == pytest.approx(7 * step)
    # Vertices at or above each step: squares with edges of 6.0, 5.4, .. 2.4 m.
    steps = np.rint(heights / step)
    assert [int((steps >= count).sum()) for count in range(1, 8)] == [n * n for n in (61, 55, 49, 43, 37, 31, 25)]
    assert origin == pytest.approx(7 * step)


@pytest.mark.parametrize("difficulty", [0.0, 0.37, 1.0])
@pytest.mark.parametrize("name", ["pyramid_stairs", "pyramid_slope"])
def test_inverted_is_upside_down(name: str, difficulty: float) -> None:
    """Walls stand where they stood, only upside down."""
    upward, upward_origin = make(name, difficulty)
    downward, downward_origin = make("inverted_" + name, difficulty)
    assert np.array_equal(downward, -upward)
    assert downward_origin == -upward_origin
    if difficulty > 0.0:
        assert downward.min() == downward_origin < 0.0
    assert not np.signbit(downward[0]).any()  # zeros without a sign


@pytest.mark.parametrize(
    ("cfg", "difficulty", "height"),
    [
        (TerrainCfg(), 0.0, 0.05),
        (TerrainCfg(), 0.5, 0.125),
        (TerrainCfg(), 1.0, 0.2),
        (TerrainCfg.small_robots(), 0.0, 0.025),
        (TerrainCfg.small_robots(), 0.5, 0.0625),
        (TerrainCfg.small_robots(), 1.0, 0.1),
    ],
)
def test_boxes(cfg: TerrainCfg, difficulty: float, height: float) -> None:
    """Every vertex belongs to the rim, the plate or one of 17 x 17 boxes, all flat."""
    heights, origin = make("boxes", difficulty, cfg)
    tops: dict[tuple[int, int], set[float]] = {}
    for i, j in np.ndindex(81, 81):
        x, y = Fraction(i, 10), Fraction(j, 10)
        box = ((x - Fraction(175, 1000)) // Fraction(45, 100), (y - Fraction(175, 1000)) // Fraction(45, 100))
        if 3 <= x <= 5 and 3 <= y <= 5:
            assert heights[i, j] == pytest.approx(height)
        elif min(box) >= 0 and max(box) < 17:
            tops.setdefault(box, set()).add(float(heights[i, j]))
        else:
            assert heights[i, j] == 0.0
    # Three by three boxes lie wholly below the plate.
    assert len(tops) == 17 * 17 - 9
    assert all(len(values) == 1 for values in tops.values())
    values = np.array([value for top in tops.values() for value in top])
    assert len(np.unique(values)) == 280
    assert np.abs(values).max() <= height
    assert values.max() > 0.95 * height
    assert values.min() < -0.95 * height
    assert origin == pytest.approx(height)


@pytest.mark.parametrize(
    ("cfg", "levels"),
    [
        (TerrainCfg(), [0.02, 0.04, 0.06, 0.08, 0.10]),
        (TerrainCfg.small_robots(), [0.01, 0.02, 0.03, 0.04, 0.05, 0.06]),
    ],
)
def test_random_rough(cfg: TerrainCfg, levels: list[float]) -> None:
    """75 x 75 independent vertices inside three rings at 0, the same at any difficulty."""
    heights, _ = make("random_rough", 0.0, cfg)
    assert heights.shape == (81, 81)
    inner = heights[3:78, 3:78]
    values, counts = np.unique(inner.round(9), return_counts=True)
    assert values == pytest.approx(levels)
    expected = 75 * 75 / len(levels)
    assert np.abs(counts - expected).max() < 5.0 * expected**0.5
    assert heights.sum() == pytest.approx(inner.sum())  # and the rings are 0, as nothing is negative
    assert heights.min() == 0.0
    for some, others in ((inner[1:], inner[:-1]), (inner[:, 1:], inner[:, :-1])):
        assert abs(np.corrcoef(some.ravel(), others.ravel())[0, 1]) < 0.07  # five standard deviations
    assert np.array_equal(make("random_rough", 1.0, cfg)[0], heights)


def test_random_rough_origin() -> None:
    """Robots start at the highest vertex within 1 m of the centre along x and y."""
    cfg = TerrainCfg(rough_height=(0.0, 10.0), rough_step=0.005)
    tiles = [make("random_rough", 0.5, cfg, seed) for seed in range(40)]
    for heights, origin in tiles:
        assert origin == max(heights[i, j] for i in range(30, 51) for j in range(30, 51))
    # The extent matters: some tiles are higher elsewhere, and in some the last row or column of the square decides.
    assert any(origin < heights.max() for heights, origin in tiles)
    assert any(origin > heights[30:50, 30:50].max() for heights, origin in tiles)


@pytest.mark.parametrize(("difficulty", "platform"), [(0.0, 0.0), (0.3725, 0.295), (0.5, 0.40), (1.0, 0.80)])
def test_slope_platform(difficulty: float, platform: float) -> None:
    """0.5325 H, in whole units of 5 mm. At 0.3725 H is 111.75 units, cut to 111: the platform is at 59.1, not 59.6."""
    heights, origin = make("pyramid_slope", difficulty)
    assert heights[30:51, 30:51] == pytest.approx(platform)
    assert heights.max() == pytest.approx(platform)
    assert origin == pytest.approx(platform)


def test_slope_shape() -> None:
    """Units of 5 mm at difficulty 1: 300 times the product of the two ramps, at most 159.75, rounded."""
    heights, _ = make("pyramid_slope", 1.0)
    units = {(3, 40): 0, (4, 40): 8, (13, 40): 81, (13, 13): 22, (13, 23): 44, (29, 30): 154, (30, 30): 160}
    units |= {(22, 40): 154, (23, 40): 160, (67, 40): 81, (67, 57): 44, (76, 40): 8, (77, 40): 0}
    for (i, j), value in units.items():
        assert heights[i, j] == pytest.approx(0.005 * value)
        assert heights[j, i] == pytest.approx(0.005 * value)
    assert not heights[:4].any()
    assert not heights[:, 77:].any()


def test_grid(terrain: Terrain) -> None:
    """Sizes, kinds and difficulties of the tiles."""
    assert terrain.heights.shape == (801, 1601)
    assert terrain.heights.dtype == np.float32
    assert terrain.size == (80.0, 160.0)
    assert terrain.cell == pytest.approx(0.1)
    counts = (4, 4, 4, 4, 2, 2)
    assert list(terrain.column_types) == [n for n, c in zip(SUB_TERRAINS, counts, strict=True) for _ in range(c)]
    levels = np.arange(10)[:, None]
    assert (terrain.difficulties >= levels / 10).all()
    assert (terrain.difficulties < (levels + 1) / 10).all()
    assert len(np.unique(terrain.difficulties)) == 200


@pytest.mark.parametrize(
    ("num_columns", "proportions", "indices"),
    [
        (1, (0.2, 0.2, 0.2, 0.2, 0.1, 0.1), [0]),
        (5, (0.2, 0.2, 0.2, 0.2, 0.1, 0.1), [0, 1, 2, 3, 4]),
        (10, (0.2, 0.2, 0.2, 0.2, 0.1, 0.1), [0, 0, 1, 1, 2, 2, 3, 3, 4, 5]),
        (4, (0, 3, 0, 1, 0, 0), [1, 1, 1, 3]),
        (2001, (0, 0, 0, 1, 0, 0), [3] * 2001),
    ],
)
def test_column_types(num_columns: int, proportions: tuple[float, ...], indices: list[int]) -> None:
    """Shares need not add up to 1; the offset of Isaac Lab's rule never reaches past the last kind."""
    cfg = TerrainCfg(num_columns=num_columns, proportions=proportions)
    assert list(terrain_module._column_types(cfg)) == [list(SUB_TERRAINS)[index] for index in indices]


def test_origins(terrain: Terrain) -> None:
    """Tile centres, at the height of the platform there."""
    assert terrain.origins.shape == (10, 20, 3)
    assert terrain.origins[0, 0, :2].tolist() == [-36.0, -76.0]
    assert terrain.origins[9, 0, :2].tolist() == [36.0, -76.0]
    assert terrain.origins[2, 19, :2].tolist() == [-20.0, 76.0]
    difficulty = terrain.difficulties[7]
    assert terrain.origins[7, 1, 2] == pytest.approx(7 * (0.05 + 0.18 * difficulty[1]))
    assert terrain.origins[7, 5, 2] == pytest.approx(-7 * (0.05 + 0.18 * difficulty[5]))
    assert terrain.origins[7, 9, 2] == pytest.approx(0.05 + 0.15 * difficulty[9])
    assert terrain.origins[7, 16, 2] == pytest.approx(0.5325 * 0.4 * difficulty[16] * 3.75, abs=0.006)
    assert terrain.origins[7, 18, 2] == pytest.approx(-0.5325 * 0.4 * difficulty[18] * 3.75, abs=0.006)
    # Tiles lie where their origins are: elsewhere the centres have other heights.
    centres = terrain.heights[40::80, 40::80]
    is_rough = np.array([name == "random_rough" for name in terrain.column_types])
    assert np.abs(centres - terrain.origins[..., 2])[:, ~is_rough].max() < 1e-6
    highest = [terrain.heights[80 * r + 30 : 80 * r + 51, 80 * 13 + 30 : 80 * 13 + 51].max() for r in range(10)]
    assert terrain.origins[:, 13, 2] == pytest.approx(highest)


def test_tiles_join_at_zero(terrain: Terrain, fine_terrain: Terrain) -> None:
    """All edges of all tiles are at exactly 0, and not much else is."""
    for heights, width in ((terrain.heights, 80), (fine_terrain.heights, 160)):
        assert not heights[::width].any()
        assert not heights[:, ::width].any()
        assert (heights != 0.0).mean() > 0.5


@pytest.mark.parametrize("tile_size", [5.0, 6.2, 9.0, 9.6])
@pytest.mark.parametrize("cell", [0.1, 0.1 / 3])
@pytest.mark.parametrize("name", list(SUB_TERRAINS))
def test_other_sizes(name: str, cell: float, tile_size: float) -> None:
    """Tiles of other sizes are symmetric in extent and end at 0, also where boxes would fill 9 m exactly."""
    heights, _ = make(name, 1.0, TerrainCfg(tile_size=tile_size, cell=cell))
    assert heights.shape == (round(tile_size / cell) + 1,) * 2
    assert not np.concatenate([heights[0], heights[-1], heights[:, 0], heights[:, -1]]).any()
    occupied = np.flatnonzero(heights.any(axis=1))
    assert occupied[0] == heights.shape[0] - 1 - occupied[-1]
    assert heights[heights.shape[0] // 2, heights.shape[1] // 2] != 0.0


def test_seed(terrain: Terrain) -> None:
    """The same seed makes the same terrain, another one other difficulties, boxes and roughness."""
    same, other = Terrain(TerrainCfg(), seed=3), Terrain(TerrainCfg(), seed=4)
    assert np.array_equal(same.heights, terrain.heights)
    assert np.array_equal(same.origins, terrain.origins)
    assert not np.isclose(other.difficulties, terrain.difficulties).any()
    for column in (8, 12):
        tile = (slice(0, 81), slice(80 * column, 80 * column + 81))
        assert not np.array_equal(other.heights[tile], terrain.heights[tile])
        next_tile = (slice(80, 161), tile[1])
        assert not np.array_equal(terrain.heights[next_tile], terrain.heights[tile])


def test_finer_cells(terrain: Terrain, fine_terrain: Terrain) -> None:
    """Finer cells hold the same ground, except that walls are steeper."""
    assert fine_terrain.heights.shape == (1601, 3201)
    assert np.array_equal(fine_terrain.heights[::2, ::2], terrain.heights)
    rng = np.random.default_rng(0)
    is_field = np.array([name in ROUGH_AND_SLOPES for name in terrain.column_types])
    columns = rng.choice(np.flatnonzero(is_field), 50000)
    x, y = rng.uniform(-40.0, 40.0, 50000), -80.0 + 8.0 * (columns + rng.random(50000))
    assert np.abs(fine_terrain.height_at(x, y) - terrain.height_at(x, y)).max() < 1e-4
    # The first step of the stairs in column 0, which ends 1 m from the edge.
    step = terrain.origins[6, 0, 2] / 7
    x = -40.0 + 6 * 8.0 + np.array([0.9, 0.925, 0.95, 0.975, 1.0, 1.1])
    y = np.full(6, -76.02)
    assert terrain.height_at(x, y) / step == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0, 1.0], abs=1e-3)
    assert fine_terrain.height_at(x, y) / step == pytest.approx([0.0, 0.0, 0.0, 0.5, 1.0, 1.0], abs=1e-3)


def test_thirds() -> None:
    """Cells of a third of 0.1 m lie on the planes of the large cells' triangles."""
    coarse, _ = make("random_rough", 0.0)
    fine, _ = make("random_rough", 0.0, TerrainCfg(cell=0.1 / 3))
    i, j = 20, 33
    near, along_x, along_y, far = coarse[i, j], coarse[i + 1, j], coarse[i, j + 1], coarse[i + 1, j + 1]
    assert fine[3 * i + 2, 3 * j + 1] == pytest.approx((near + along_x + far) / 3)
    assert fine[3 * i + 1, 3 * j + 2] == pytest.approx((near + along_y + far) / 3)
    assert fine[3 * i + 2, 3 * j + 2] == pytest.approx((near + 2 * far) / 3)
    assert fine[3 * i + 1, 3 * j] == pytest.approx((2 * near + along_x) / 3)


@pytest.mark.parametrize("name", ["terrain", "fine_terrain"])
def test_height_at_equals_rays(name: str, request: pytest.FixtureRequest) -> None:
    """Vertical rays of MuJoCo hit the ground where the look-up says, on the tiles and around them."""
    ground: Terrain = request.getfixturevalue(name)
    spec = mujoco.MjSpec()
    ground.add_to(spec, friction=0.7)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    geom = np.zeros(1, dtype=np.int32)

    def ray(x: float, y: float) -> float:
        start, down = np.array([x, y, 10.0]), np.array([0.0, 0.0, -1.0])
        distance = mujoco.mj_ray(model, data, start, down, None, 1, -1, geom)
        return 10.0 - distance if distance >= 0.0 else -np.inf

    rng = np.random.default_rng(1)
    inside = rng.uniform((-40.0, -80.0), (40.0, 80.0), (500, 2)).astype(np.float32)
    hits = np.array([ray(x, y) for x, y in inside])
    assert np.abs(ground.height_at(inside[:, 0], inside[:, 1]) - hits).max() < 1e-4
    assert np.unique(hits.round(4)).size > 150  # the rays saw more than plates
    outside = np.array([[40.02, 3], [-41, 7], [139.9, 0], [-139.9, 179.9], [5, 80.03], [-33, -95], [0, 179.9]])
    assert ground.height_at(outside[:, 0], outside[:, 1]).tolist() == [0.0] * 7
    assert [ray(x, y) for x, y in outside] == pytest.approx([0.0] * 7, abs=1e-9)
    assert [ray(140.1, 0), ray(-140.1, 0), ray(0, 180.1), ray(0, -180.1)] == [-np.inf] * 4

    names = [model.geom(index).name for index in range(model.ngeom)]
    assert names == ["terrain", "border_0", "border_1", "border_2", "border_3"]
    assert model.geom_contype.tolist() == [1] * 5
    assert model.geom_conaffinity.tolist() == [0] * 5
    assert model.geom_friction[:, 0].tolist() == [0.7] * 5
    elevations = model.hfield_data.reshape(ground.heights.T.shape) * model.hfield_size[0, 2] + model.geom_pos[0, 2]
    assert np.abs(elevations.T - ground.heights).max() < 1e-6


def test_height_at_in_blocks(terrain: Terrain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any shape and number of points, against planes through three vertices in double precision."""
    rng = np.random.default_rng(2)
    x, y = (rng.uniform(-limit, limit, (3, 70, 187)).astype(np.float32) for limit in (41.0, 82.0))
    monkeypatch.setattr(terrain_module, "_BLOCK", 1000)
    heights = terrain.height_at(x, y)
    assert heights.shape == x.shape
    assert heights.dtype == np.float32
    u = np.clip(10.0 * x.astype(float) + 400.0, 0.0, 799.999999)
    v = np.clip(10.0 * y.astype(float) + 800.0, 0.0, 1599.999999)
    i, j = u.astype(int), v.astype(int)
    u, v = u - i, v - j
    near, far = terrain.heights[i, j], terrain.heights[i + 1, j + 1]
    right, left = terrain.heights[i + 1, j], terrain.heights[i, j + 1]
    planes = np.where(u > v, near + u * (right - near) + v * (far - right), near + v * (left - near) + u * (far - left))
    assert np.abs(heights - planes).max() < 1e-4
    monkeypatch.undo()
    assert np.array_equal(terrain.height_at(x, y), heights)
    assert np.array_equal(terrain.height_at(x[:, ::2], y[:, ::2]), heights[:, ::2])
    assert terrain.height_at(np.zeros((0, 187)), np.zeros((0, 187))).shape == (0, 187)
    assert terrain.height_at(x[0, 0, 0], y[0, 0, 0]) == heights[0, 0, 0]
    with pytest.raises(ValueError, match="same shape"):
        terrain.height_at(x, y[0])


def test_height_at_rim(terrain: Terrain) -> None:
    """Exactly 0 on the rim, beyond it and far away, also where the last vertex is the nearest."""
    x, y = np.meshgrid([-1e6, -40.0, -39.98, 0.03, 39.98, 40.0, np.inf], [-np.inf, -80.0, 80.0, 1e6])
    assert not terrain.height_at(x, y).any()
    x, y = np.meshgrid([-1e6, -40.0, 40.0, np.inf], [-79.98, -76.0, 0.03, 79.98])
    assert not terrain.height_at(x, y).any()


def test_flat_ground_compiles() -> None:
    """A terrain without any height has no range of elevations."""
    cfg = TerrainCfg(num_levels=1, num_columns=2, slope=(0.0, 0.0), proportions=(0, 0, 0, 0, 1, 1))
    ground = Terrain(cfg, seed=0)
    spec = mujoco.MjSpec()
    ground.add_to(spec)
    model = spec.compile()
    assert model.geom_pos[0].tolist() == [0.0, 0.0, 0.0]
    assert not model.hfield_data.any()


def test_scan_points() -> None:
    """17 x 11 points, x fastest."""
    points = scan_points()
    assert points.shape == (187, 2)
    assert points.dtype == np.float32
    expected = {0: (-0.8, -0.5), 1: (-0.7, -0.5), 16: (0.8, -0.5), 17: (-0.8, -0.4), 93: (0.0, 0.0), 186: (0.8, 0.5)}
    for index, point in expected.items():
        assert points[index] == pytest.approx(point)


def test_small_robots() -> None:
    """Only boxes and roughness are smaller."""
    expected = replace(TerrainCfg(), box_height=(0.025, 0.1), rough_height=(0.01, 0.06), rough_step=0.01)
    assert TerrainCfg.small_robots() == expected


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("num_levels", 0, "integer"),
        ("num_columns", 2.5, "integer"),
        ("num_columns", True, "integer"),
        ("tile_size", 8.1, "multiple of 0.2"),
        ("tile_size", 4.8, "at least 5"),
        ("cell", 0.07, "divided by an integer"),
        ("cell", 0.2, "divided by an integer"),
        ("cell", 0.0, "positive"),
        ("vertical_scale", -0.005, "positive"),
        ("stair_height", (0.2, 0.1), "two numbers"),
        ("box_height", (0.1,), "two numbers"),
        ("rough_height", (-0.1, 0.1), "two numbers"),
        ("slope", (0.0, float("nan")), "two numbers"),
        ("slope", 0.4, "two numbers"),
        ("rough_step", 0.001, "vertical_scale"),
        ("proportions", (1.0, 1.0), "6 shares"),
        ("proportions", (0, 0, 0, 0, 0, 0), "not all 0"),
        ("proportions", (1, 1, 1, 1, 1, -1), "none negative"),
        ("border", "wide", "positive"),
    ],
)
def test_wrong_values(name: str, value: object, message: str) -> None:
    """The message names the field, what it may be and what it was."""
    with pytest.raises(ConfigError, match=rf"{name} must be .*{message}.*, got ") as error:
        TerrainCfg(**{name: value})  # type: ignore[reportArgumentType]
    assert repr(value) in str(error.value)


def test_depth_leaves_the_ground_where_it_is() -> None:
    """A ball of 5 cm comes to rest with its centre 5 cm above the ground, less what it sinks in, at any depth."""
    cfg = TerrainCfg(num_levels=1, num_columns=2, slope=(0.0, 0.0), proportions=(0, 0, 0, 0, 1, 1))
    heights = []
    for depth in (0.0, 0.02):
        spec = mujoco.MjSpec()
        Terrain(cfg, seed=0).add_to(spec, depth=depth)
        ball = spec.worldbody.add_body(pos=[0.03, 0.04, 0.1])
        ball.add_freejoint()
        ball.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.05, 0.0, 0.0])
        model = spec.compile()
        data = mujoco.MjData(model)
        for _ in range(1000):
            mujoco.mj_step(model, data)
        heights.append(data.qpos[2])
        start, down = np.array([1.0, 1.0, 1.0]), np.array([0.0, 0.0, -1.0])
        distance = mujoco.mj_ray(model, data, start, down, None, 1, -1, np.zeros(1, np.int32))
        assert distance == pytest.approx(1.0 + depth)  # the height field itself lies deeper
    assert heights[0] == pytest.approx(heights[1], abs=1e-4)
    assert 0.045 < heights[0] < 0.05
