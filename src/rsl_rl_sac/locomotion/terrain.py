# SPDX-License-Identifier: BSD-3-Clause

"""Rough terrain of the velocity tasks as one height field, with an exact and fast look-up of its heights.

Shapes and numbers are those of Isaac Lab 2.3.2 (BSD-3-Clause): six kinds of tiles in a grid that gets harder along x.
Isaac Lab builds a mesh. A height field cannot hold its vertical walls, neither those of stairs and boxes nor those
that Isaac Lab cuts between rough vertices more than 7.5 cm apart: here a wall is a ramp one cell wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from rsl_rl_sac.utils.errors import ConfigError

Tile = tuple[np.ndarray, float]
"""Heights of the vertices [x, y] of a tile, both edges included, and the height at which robots start."""

# Edges of steps and boxes are compared in whole units of 0.025 m, of which all their lengths are multiples: in floating
# point, a vertex on an edge would fall on either side of it.
_UNITS_PER_PIXEL = 4  # A pixel is a cell of Isaac Lab's height fields, 0.1 m.
_PIXELS_PER_METRE = 10
_STEP_WIDTH = 12
_STAIR_BORDER = 40
_STAIR_PLATFORM = 120  # Nominal: rings are added as long as they start outside of it.
_BOX_WIDTH = 18
_BOX_PLATFORM = 80

_FIELD_BORDER = 3  # Pixels: 0.25 m, rounded up.
_FIELD_PLATFORM = 10  # Pixels from the centre to the edge of the 2 m platform.

_GROUND_DEPTH = 1.0  # Metres of solid ground below the lowest height.
_BLOCK = 32768  # Points per pass of the look-up: half of it costs 6 % more, a quarter 30 %; more leaves the cache.


@dataclass(frozen=True)
class TerrainCfg:
    """Rough terrain. The defaults are those of ANYmal, H1 and G1."""

    num_levels: int = 10
    """Rows of tiles along x, from easy to hard."""

    num_columns: int = 20
    """Columns of tiles along y. All tiles of a column are of one kind."""

    tile_size: float = 8.0
    """Edge of a square tile in metres, a multiple of 0.2."""

    cell: float = 0.1
    """Metres between the vertices of the height field: 0.1 divided by an integer. Walls are ramps of this width."""

    vertical_scale: float = 0.005
    """Metres to which the heights of rough tiles and slopes are rounded."""

    stair_height: tuple[float, float] = (0.05, 0.23)
    """Step height at difficulty 0 and 1."""

    box_height: tuple[float, float] = (0.05, 0.2)
    """Largest height of a box above and depth below the ground at difficulty 0 and 1."""

    rough_height: tuple[float, float] = (0.02, 0.10)
    """Lowest and highest vertex of rough tiles, at any difficulty."""

    rough_step: float = 0.02
    """Metres between the heights that vertices of rough tiles can have."""

    slope: tuple[float, float] = (0.0, 0.4)
    """Slope at difficulty 0 and 1."""

    proportions: tuple[float, ...] = (0.2, 0.2, 0.2, 0.2, 0.1, 0.1)
    """Shares of the columns, in the order of :data:`SUB_TERRAINS`."""

    border: float = 100.0
    """Metres of flat ground around the tiles."""
    # Isaac Lab has 20 m. More costs nothing, and nothing else stops a robot that walks on from falling off the world.

    def __post_init__(self) -> None:
        """Check the values."""
        for name in ("num_levels", "num_columns"):
            value = getattr(self, name)
            _check(_are_numbers([value]) and isinstance(value, int) and value >= 1, name, value, "an integer >= 1")
        for name in ("tile_size", "cell", "vertical_scale", "rough_step", "border"):
            value = getattr(self, name)
            _check(_are_numbers([value]) and value > 0.0, name, value, "a positive number")
        for name in ("stair_height", "box_height", "rough_height", "slope"):
            value = getattr(self, name)
            _check(_are_numbers(value, 2) and 0.0 <= value[0] <= value[1], name, value, "two numbers, 0 <= low <= high")
        shares = self.proportions
        ok = _are_numbers(shares, len(SUB_TERRAINS)) and min(shares) >= 0.0 and sum(shares) > 0.0
        _check(ok, "proportions", shares, f"{len(SUB_TERRAINS)} shares, none negative, not all 0")
        pairs = self.tile_size * _PIXELS_PER_METRE / 2
        ok = self.tile_size > 4.9 and abs(pairs - round(pairs)) < 1e-6
        _check(ok, "tile_size", self.tile_size, "a multiple of 0.2 of at least 5")
        ok = self.refinement >= 1 and abs(self.cell * self.refinement * _PIXELS_PER_METRE - 1.0) < 1e-4
        _check(ok, "cell", self.cell, "0.1 divided by an integer, such as 0.1 or 0.05")
        ok = self.rough_step >= self.vertical_scale
        _check(ok, "rough_step", self.rough_step, f"at least vertical_scale ({self.vertical_scale})")

    @classmethod
    def small_robots(cls) -> TerrainCfg:
        """Return the terrain of A1, Go1 and Go2: lower boxes and finer roughness, but the same stairs and slopes."""
        return cls(box_height=(0.025, 0.1), rough_height=(0.01, 0.06), rough_step=0.01)

    @property
    def refinement(self) -> int:
        """Cells along 0.1 m."""
        return round(1.0 / (_PIXELS_PER_METRE * self.cell))

    @property
    def pixels_per_tile(self) -> int:
        """Lengths of 0.1 m along the edge of a tile."""
        return round(self.tile_size * _PIXELS_PER_METRE)

    @property
    def cells_per_tile(self) -> int:
        """Cells along the edge of a tile."""
        return self.pixels_per_tile * self.refinement


def _check(ok: bool, name: str, value: object, allowed: str) -> None:
    if not ok:
        raise ConfigError(f"Terrain: {name} must be {allowed}, got {value!r}.")


def _are_numbers(values: Sequence[object], count: int = 1) -> bool:
    is_list = isinstance(values, list | tuple) and len(values) == count
    return is_list and all(isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in values)


def _at(limits: tuple[float, float], difficulty: float) -> float:
    """Interpolate between the value at difficulty 0 and the one at 1."""
    return limits[0] + difficulty * (limits[1] - limits[0])


def _vertex_positions(cfg: TerrainCfg) -> np.ndarray:
    """Return where the vertices along an edge lie, in units of 0.025 m divided by the refinement."""
    return _UNITS_PER_PIXEL * np.arange(cfg.cells_per_tile + 1)


def pyramid_stairs(cfg: TerrainCfg, difficulty: float, generator: np.random.Generator) -> Tile:
    """Square rings of steps up to a plate in the centre. A vertex on an edge has the height of the upper side."""
    height = _at(cfg.stair_height, difficulty)
    size = _UNITS_PER_PIXEL * cfg.pixels_per_tile
    num_rings = (size - 2 * _STAIR_BORDER - _STAIR_PLATFORM) // (2 * _STEP_WIDTH) + 1
    positions = _vertex_positions(cfg)
    to_edge = np.minimum(positions, positions[::-1])
    to_edge = np.minimum(to_edge[:, None], to_edge[None, :])
    steps = (to_edge - _STAIR_BORDER * cfg.refinement) // (_STEP_WIDTH * cfg.refinement) + 1
    return np.clip(steps, 0, num_rings + 1) * height, (num_rings + 1) * height


def inverted_pyramid_stairs(cfg: TerrainCfg, difficulty: float, generator: np.random.Generator) -> Tile:
    """Square rings of steps down to a plate in the centre: :func:`pyramid_stairs` upside down."""
    return _inverted(*pyramid_stairs(cfg, difficulty, generator))


def boxes(cfg: TerrainCfg, difficulty: float, generator: np.random.Generator) -> Tile:
    """A grid of boxes of random heights, a flat rim, and a plate in the centre as high as the highest possible box."""
    height = _at(cfg.box_height, difficulty)
    size = _UNITS_PER_PIXEL * cfg.pixels_per_tile
    num_boxes = (size - 1) // _BOX_WIDTH  # One less than would fit where nothing were left for the rim.
    rim = (size - num_boxes * _BOX_WIDTH) // 2
    tops = np.pad(generator.uniform(-height, height, (num_boxes, num_boxes)), 1)
    positions = _vertex_positions(cfg)
    box = (positions - rim * cfg.refinement) // (_BOX_WIDTH * cfg.refinement) + 1
    box = np.clip(box, 0, num_boxes + 1)
    heights = tops[np.ix_(box, box)]
    on_plate = np.abs(2 * positions - size * cfg.refinement) <= _BOX_PLATFORM * cfg.refinement
    heights[np.ix_(on_plate, on_plate)] = height
    return heights, height


def random_rough(cfg: TerrainCfg, difficulty: float, generator: np.random.Generator) -> Tile:
    """Vertices every 0.1 m of random heights, whatever the difficulty, inside a flat rim."""
    lowest, highest, step = (round(value / cfg.vertical_scale) for value in (*cfg.rough_height, cfg.rough_step))
    inner = cfg.pixels_per_tile + 1 - 2 * _FIELD_BORDER
    drawn = generator.choice(np.arange(lowest, highest + 1, step), (inner, inner))
    heights = np.pad(drawn, _FIELD_BORDER) * cfg.vertical_scale
    centre = cfg.pixels_per_tile // 2
    plate = slice(centre - _FIELD_PLATFORM, centre + _FIELD_PLATFORM + 1)
    return _refined(heights, cfg.refinement), float(heights[plate, plate].max())


def pyramid_slope(cfg: TerrainCfg, difficulty: float, generator: np.random.Generator) -> Tile:
    """A hill, the product of two ramps, cut off at the corners of a platform in the centre."""
    num_ramp = cfg.pixels_per_tile // 2 - _FIELD_BORDER
    inner_size = (2 * num_ramp + 1) / _PIXELS_PER_METRE
    # Cut to whole units as in Isaac Lab, but not where only a rounding error is missing.
    peak = int(_at(cfg.slope, difficulty) * inner_size / 2.0 / cfg.vertical_scale + 1e-9)
    ramp = 1.0 - np.abs(np.arange(-num_ramp, num_ramp + 1)) / num_ramp
    hill = peak * np.outer(ramp, ramp)
    hill = np.minimum(hill, hill[num_ramp - _FIELD_PLATFORM, num_ramp - _FIELD_PLATFORM])
    heights = np.pad(np.rint(hill), _FIELD_BORDER) * cfg.vertical_scale
    return _refined(heights, cfg.refinement), float(heights.max())


def inverted_pyramid_slope(cfg: TerrainCfg, difficulty: float, generator: np.random.Generator) -> Tile:
    """A hollow: :func:`pyramid_slope` upside down."""
    return _inverted(*pyramid_slope(cfg, difficulty, generator))


def _inverted(heights: np.ndarray, origin: float) -> Tile:
    return 0.0 - heights, 0.0 - origin  # Not -heights, whose zeros would be negative.


def _refined(heights: np.ndarray, refinement: int) -> np.ndarray:
    """Return the vertices of finer cells on the same surface, see :meth:`Terrain._look_up` for its triangles."""
    if refinement == 1:
        return heights
    fine = np.arange((heights.shape[0] - 1) * refinement + 1)
    coarse = np.minimum(fine // refinement, heights.shape[0] - 2)
    fraction = fine / refinement - coarse
    along_x, along_y = fraction[:, None], fraction[None, :]
    near, far = heights[np.ix_(coarse, coarse)], heights[np.ix_(coarse + 1, coarse + 1)]
    third = np.where(along_x > along_y, heights[np.ix_(coarse + 1, coarse)], heights[np.ix_(coarse, coarse + 1)])
    return near + np.maximum(along_x, along_y) * (third - near) + np.minimum(along_x, along_y) * (far - third)


SUB_TERRAINS: dict[str, Callable[[TerrainCfg, float, np.random.Generator], Tile]] = {
    "pyramid_stairs": pyramid_stairs,
    "inverted_pyramid_stairs": inverted_pyramid_stairs,
    "boxes": boxes,
    "random_rough": random_rough,
    "pyramid_slope": pyramid_slope,
    "inverted_pyramid_slope": inverted_pyramid_slope,
}
"""Kinds of tiles. The outermost vertices of all are at exactly 0, so that any two can be neighbours."""


class Terrain:
    """All tiles, centred at the origin: level ``r`` begins at x = (r - levels / 2) tiles, columns likewise along y.

    Attributes:
        cfg: Configuration.
        cell: Metres between vertices.
        size: Metres covered by tiles along x and y.
        heights: Heights of the vertices [x, y] in metres, float32. Edges that tiles share are held once.
        origins: Where robots start on a tile [level, column, 3]: above its centre, on the ground.
        difficulties: Difficulty of the tiles [level, column], in [0, 1).
        column_types: Kind of the tiles of each column, a key of :data:`SUB_TERRAINS`.
    """

    def __init__(self, cfg: TerrainCfg, seed: int | np.random.SeedSequence) -> None:
        """Build the tiles.

        Args:
            cfg: Configuration.
            seed: Seed of all that is random. The same seed makes the same tiles for any ``cell``.
        """
        self.cfg = cfg
        self.cell = 1.0 / (_PIXELS_PER_METRE * cfg.refinement)
        self.size = (cfg.num_levels * cfg.tile_size, cfg.num_columns * cfg.tile_size)
        self.column_types = _column_types(cfg)
        generator = np.random.default_rng(seed)
        uniform = generator.random((cfg.num_levels, cfg.num_columns))
        self.difficulties = (np.arange(cfg.num_levels)[:, None] + uniform) / cfg.num_levels
        width = cfg.cells_per_tile
        self.heights = np.zeros((cfg.num_levels * width + 1, cfg.num_columns * width + 1), dtype=np.float32)
        self.origins = np.zeros((cfg.num_levels, cfg.num_columns, 3))
        self.origins[..., 0] = ((np.arange(cfg.num_levels) + 0.5) * cfg.tile_size - self.size[0] / 2)[:, None]
        self.origins[..., 1] = (np.arange(cfg.num_columns) + 0.5) * cfg.tile_size - self.size[1] / 2
        for level, column in np.ndindex(cfg.num_levels, cfg.num_columns):
            sub_terrain = SUB_TERRAINS[self.column_types[column]]
            tile, origin = sub_terrain(cfg, float(self.difficulties[level, column]), generator)
            x, y = level * width, column * width
            self.heights[x : x + width + 1, y : y + width + 1] = tile
            self.origins[level, column, 2] = origin
        # The look-up works in memory that it keeps: with fresh memory in each pass it took two to three times as long.
        self._floats = np.empty((5, _BLOCK), dtype=np.float32)
        self._integers = np.empty((2, _BLOCK), dtype=np.int32)
        self._indices = np.empty((2, _BLOCK), dtype=np.intp)
        self._mask = np.empty(_BLOCK, dtype=np.bool_)

    def height_at(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the height of the ground, which is where a vertical ray hits the geoms of :meth:`add_to`.

        Works in float32, in memory of the object: not for two threads at once.

        Args:
            x: Positions along x in metres, of any shape.
            y: Positions along y, of the same shape.

        Returns:
            Heights in metres of the same shape, float32. Outside of the tiles they are 0.
        """
        x, y = np.asarray(x, dtype=np.float32), np.asarray(y, dtype=np.float32)
        if x.shape != y.shape:
            raise ValueError(f"x and y must have the same shape, got {x.shape} and {y.shape}.")
        heights = np.empty(x.shape, dtype=np.float32)
        flat_x, flat_y, flat_heights = x.reshape(-1), y.reshape(-1), heights.reshape(-1)
        for start in range(0, flat_x.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            self._look_up(flat_x[block], flat_y[block], flat_heights[block])
        return heights

    def add_to(self, spec: mujoco.MjSpec, friction: float = 1.0, depth: float = 0.0) -> None:
        """Add the ground to the world: a height field "terrain" and four boxes "border_0" .. "border_3" around it.

        The geoms touch geoms whose conaffinity has the lowest bit.

        Args:
            spec: Model to add to.
            friction: Sliding friction. Torsional and rolling friction are MuJoCo's defaults.
            depth: How far below the ground the height field lies; contacts with it begin at that distance, on the
                ground. A foot can then sink in by so much more before its centre is under the height field.
        """
        common = {"contype": 1, "conaffinity": 0, "friction": [friction, 0.005, 0.0001]}
        lowest, highest = float(self.heights.min()), float(self.heights.max())
        elevation = max(highest - lowest, 1e-3)  # MuJoCo refuses 0, the range of flat ground.
        half_x, half_y = self.size[0] / 2, self.size[1] / 2
        spec.add_hfield(
            name="terrain",
            size=[half_x, half_y, elevation, _GROUND_DEPTH],
            nrow=self.heights.shape[1],
            ncol=self.heights.shape[0],
            userdata=((self.heights.T - lowest) / elevation).ravel(),  # MuJoCo wants fractions, and rows along y.
        )
        spec.worldbody.add_geom(
            name="terrain",
            type=mujoco.mjtGeom.mjGEOM_HFIELD,
            hfieldname="terrain",
            pos=[0.0, 0.0, lowest - depth],
            margin=depth,
            **common,
        )
        half = self.cfg.border / 2
        # Two boxes at the ends of x, with the corners, and two at the ends of y.
        sides = [((half_x + half, 0.0), (half, half_y + self.cfg.border)), ((0.0, half_y + half), (half_x, half))]
        for index, ((x, y), half_size) in enumerate([sides[0], sides[0], sides[1], sides[1]]):
            sign = -1.0 if index % 2 == 0 else 1.0
            spec.worldbody.add_geom(
                name=f"border_{index}",
                type=mujoco.mjtGeom.mjGEOM_BOX,
                pos=[sign * x, sign * y, -_GROUND_DEPTH / 2],
                size=[*half_size, _GROUND_DEPTH / 2],
                **common,
            )

    def _look_up(self, x: np.ndarray, y: np.ndarray, heights: np.ndarray) -> None:
        """Write the heights of at most ``_BLOCK`` points.

        MuJoCo splits each cell along the diagonal from its lowest to its highest x and y: with only the vertex (1, 1)
        of a cell raised to 1, mj_ray finds min(u, v) at the point (u, v), and contacts agree. Hence the two ends of the
        diagonal always count, and of the two other vertices the one on the point's side.
        """
        count = x.size
        u, v, third, far, larger = self._floats[:, :count]
        row, column = self._integers[:, :count]
        near_indices, third_indices = self._indices[:, :count]
        mask = self._mask[:count]
        num_x, num_y = self.heights.shape
        scale = np.float32(1.0 / self.cell)

        # Outside is moved to the rim, which is 0. There an index can be past the end of its row or of the table: it
        # finds a vertex of the rim, or is clipped to the last one, and all of these are 0.
        for position, fraction, integer, num in ((x, u, row, num_x), (y, v, column, num_y)):
            np.multiply(position, scale, out=fraction)
            np.add(fraction, np.float32((num - 1) / 2), out=fraction)
            np.clip(fraction, np.float32(0.0), np.float32(num - 1), out=fraction)
            np.floor(fraction, out=third)
            np.copyto(integer, third, casting="unsafe")
            np.subtract(fraction, third, out=fraction)

        np.multiply(row, np.int32(num_y), out=row)
        np.add(row, column, out=row)
        np.copyto(near_indices, row)
        # The third vertex is (0, 1), the next in the table, or (1, 0), a row on. np.where took five times as long.
        np.greater(u, v, out=mask)
        np.multiply(mask, num_y - 1, out=third_indices)
        np.add(third_indices, near_indices, out=third_indices)

        # A table with the planes of the triangles needs one gather instead of three, but took 20 % longer in all and 8
        # times the memory. Shifted views of the heights spare the additions to the indices.
        table = self.heights.reshape(-1)
        np.take(table, near_indices, mode="clip", out=heights)
        np.take(table[1:], third_indices, mode="clip", out=third)
        np.take(table[num_y + 1 :], near_indices, mode="clip", out=far)

        np.maximum(u, v, out=larger)
        np.minimum(u, v, out=u)
        np.subtract(far, third, out=far)
        np.multiply(far, u, out=far)
        np.subtract(third, heights, out=third)
        np.multiply(third, larger, out=third)
        np.add(heights, third, out=heights)
        np.add(heights, far, out=heights)


def scan_points() -> np.ndarray:
    """Return the points of the height scan around a robot [187, 2]: 1.6 m by 1.0 m every 0.1 m, x fastest, float32."""
    x, y = np.meshgrid(np.arange(-8, 9) / 10, np.arange(-5, 6) / 10)
    return np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32)


def _column_types(cfg: TerrainCfg) -> tuple[str, ...]:
    """Return the kind of each column: Isaac Lab's rule, whose small offset settles columns that end on a share."""
    names = [name for name, share in zip(SUB_TERRAINS, cfg.proportions, strict=True) if share > 0.0]
    shares = np.cumsum([share for share in cfg.proportions if share > 0.0]) / sum(cfg.proportions)
    positions = np.arange(cfg.num_columns) / cfg.num_columns + 0.001
    indices = np.searchsorted(shares[:-1], positions, side="right")  # The last kind has no end.
    return tuple(names[index] for index in indices)
