//! A canvas, and the figures that are drawn on it.

use std::ops::Range;

use super::ShapeKind;
use crate::random::unit;
use crate::toy::random::SplitMix64;

/// Pixels of a side.
pub(super) const SIDE: usize = 32;
/// Samples of a pixel in each direction, which soften edges.
const SAMPLES: usize = 3;
/// The distance from its center that a shape of radius 1 reaches.
const REACH: f64 = 1.24;

/// Red, green and blue of each pixel, in 0 to 255.
pub(super) struct Canvas {
    pixels: Vec<[f64; 3]>,
}

/// A shape at its position.
pub(super) struct Figure {
    kind: ShapeKind,
    center: [f64; 2],
    radius: f64,
    /// Cosine and sine of the angle by which it is turned.
    turn: [f64; 2],
}

/// Draws a uniform number between `low` and `high`.
pub(super) fn between(low: f64, high: f64, random: &mut SplitMix64) -> f64 {
    low + (high - low) * unit(random.next())
}

/// Draws the cosine and sine of a direction. Those near the axes are a little more frequent than
/// others.
fn direction(random: &mut SplitMix64) -> [f64; 2] {
    // A rational point on the unit circle for each slope, because sines differ between machines.
    let slope = between(-1.0, 1.0, random);
    let cos = (1.0 - slope * slope) / (1.0 + slope * slope);
    let sin = 2.0 * slope / (1.0 + slope * slope);
    if random.chance(50) {
        [cos, sin]
    } else {
        [-cos, -sin]
    }
}

impl Canvas {
    /// Makes a canvas with a gray gradient in a random direction.
    pub(super) fn background(random: &mut SplitMix64) -> Self {
        let middle = between(70.0, 185.0, random);
        let [down, right] = [between(-1.5, 1.5, random), between(-1.5, 1.5, random)];
        let half = SIDE as f64 / 2.0;
        let mut pixels = Vec::with_capacity(SIDE * SIDE);
        for row in 0..SIDE {
            for column in 0..SIDE {
                let gray = middle + down * (row as f64 - half) + right * (column as f64 - half);
                pixels.push([gray; 3]);
            }
        }
        Self { pixels }
    }

    /// Draws a thin gray line.
    pub(super) fn stroke(&mut self, random: &mut SplitMix64) {
        let gray = between(20.0, 235.0, random);
        let [row, column] = [
            between(0.0, SIDE as f64, random),
            between(0.0, SIDE as f64, random),
        ];
        let [cos, sin] = direction(random);
        let half_len = between(3.0, 8.0, random);
        self.paint([row, column], half_len + 1.0, [gray; 3], |down, right| {
            let along = cos * down + sin * right;
            let across = cos * right - sin * down;
            along * along <= half_len * half_len && across * across <= 0.36
        });
    }

    /// Draws a dot too small to be a shape.
    pub(super) fn speck(&mut self, color: [u8; 3], random: &mut SplitMix64) {
        let center = [
            between(0.0, SIDE as f64, random),
            between(0.0, SIDE as f64, random),
        ];
        self.paint(center, 2.0, color.map(f64::from), |down, right| {
            down * down + right * right <= 1.2
        });
    }

    pub(super) fn fill(&mut self, figure: &Figure, color: [f64; 3]) {
        self.paint(
            figure.center,
            figure.radius * REACH,
            color,
            |down, right| figure.covers(down, right),
        );
    }

    /// Mixes `color` into every pixel by the share of the pixel that is `inside` a figure. The
    /// arguments of `inside` are distances from `center` in pixels, down and right; it is only
    /// called within `reach` of the center.
    fn paint(
        &mut self,
        center: [f64; 2],
        reach: f64,
        color: [f64; 3],
        inside: impl Fn(f64, f64) -> bool,
    ) {
        let [rows, columns] = center.map(|position| on_canvas(position - reach, position + reach));
        for row in rows {
            for column in columns.clone() {
                let hits = (0..SAMPLES * SAMPLES).filter(|number| {
                    let down = row as f64 + sample_offset(number / SAMPLES) - center[0];
                    let right = column as f64 + sample_offset(number % SAMPLES) - center[1];
                    inside(down, right)
                });
                let share = hits.count() as f64 / (SAMPLES * SAMPLES) as f64;
                for (value, color) in self.pixels[row * SIDE + column].iter_mut().zip(color) {
                    *value += share * (color - *value);
                }
            }
        }
    }

    /// Returns the picture with noise, as bytes.
    pub(super) fn into_bytes(self, random: &mut SplitMix64) -> Vec<u8> {
        let values = self.pixels.into_iter().flatten();
        values
            .map(|value| {
                (value + between(-12.0, 12.0, random))
                    .round()
                    .clamp(0.0, 255.0) as u8
            })
            .collect()
    }
}

/// The rows or columns of pixels from `low` to `high` that are on the canvas.
fn on_canvas(low: f64, high: f64) -> Range<usize> {
    let start = low.floor().clamp(0.0, SIDE as f64);
    let end = high.ceil().clamp(0.0, SIDE as f64);
    start as usize..end as usize
}

/// The distance of a sample from the edge of its pixel.
fn sample_offset(number: usize) -> f64 {
    (number as f64 + 0.5) / SAMPLES as f64
}

impl Figure {
    /// Draws a shape at a random position and angle, whole between these rows and these columns.
    pub(super) fn draw(
        kind: ShapeKind,
        radius: f64,
        area: [[f64; 2]; 2],
        random: &mut SplitMix64,
    ) -> Self {
        let margin = radius * REACH;
        let center = area.map(|[low, high]| between(low + margin, high - margin, random));
        Self {
            kind,
            center,
            radius,
            turn: direction(random),
        }
    }

    /// Whether it is whole between these rows and these columns.
    pub(super) fn is_within(&self, area: [[f64; 2]; 2]) -> bool {
        let margin = self.radius * REACH;
        self.center
            .iter()
            .zip(area)
            .all(|(position, [low, high])| (low + margin..=high - margin).contains(position))
    }

    /// Turns the shape upright, and moves its center to the nearest line of a grid in both
    /// directions.
    pub(super) fn upright(self, grid: f64) -> Self {
        let center = self.center.map(|position| (position / grid).round() * grid);
        Self {
            turn: [0.0, 1.0],
            center,
            ..self
        }
    }

    /// Row, column and radius, in pixels.
    pub(super) fn place(&self) -> [f64; 3] {
        let [row, column] = self.center;
        [row, column, self.radius]
    }

    /// Whether two shapes might touch.
    pub(super) fn is_near(&self, other: &Self) -> bool {
        let [down, right] = [0, 1].map(|axis| self.center[axis] - other.center[axis]);
        let apart = (self.radius + other.radius) * REACH + 0.5;
        down * down + right * right < apart * apart
    }

    /// Whether a point is in the shape. All kinds have about twice the area of a square whose side
    /// is the radius.
    fn covers(&self, down: f64, right: f64) -> bool {
        let [cos, sin] = self.turn;
        // The point in a frame that is turned and scaled with the shape.
        let u = (cos * down + sin * right) / self.radius;
        let v = (cos * right - sin * down) / self.radius;
        match self.kind {
            ShapeKind::Circle => u * u + v * v <= 0.64,
            ShapeKind::Square => u.abs().max(v.abs()) <= 0.71,
            ShapeKind::Cross => u.abs().max(v.abs()) <= 0.98 && u.abs().min(v.abs()) <= 0.3,
            // Three half-planes at the inner radius, half of the outer.
            ShapeKind::Triangle => {
                let [left, right] = [0.866_025_4 * u + 0.5 * v, -0.866_025_4 * u + 0.5 * v];
                left <= 0.62 && right <= 0.62 && -v <= 0.62
            }
        }
    }
}
