//! A canvas, and what is drawn on it.

use super::ShapeKind;
use crate::random::unit;
use crate::toy::random::SplitMix64;

/// Pixels of a side.
pub(super) const SIDE: usize = 32;
/// Samples of a pixel in each direction, which soften edges.
const SAMPLES: usize = 3;
/// How far a shape of radius 1 reaches.
const REACH: f64 = 1.24;

/// Red, green and blue of each pixel, in 0 to 255.
pub(super) struct Canvas {
    pixels: Vec<[f64; 3]>,
}

/// A shape at its place.
pub(super) struct Figure {
    kind: ShapeKind,
    center: [f64; 2],
    radius: f64,
    /// Cosine and sine of the angle by which it is turned.
    turn: [f64; 2],
}

/// A uniform number between `low` and `high`.
pub(super) fn between(low: f64, high: f64, random: &mut SplitMix64) -> f64 {
    low + (high - low) * unit(random.next())
}

/// A random direction. Those near the axes are a little more frequent than others.
fn direction(random: &mut SplitMix64) -> [f64; 2] {
    // A rational point on the unit circle for each slope, because sines differ between machines.
    let slope = between(-1.0, 1.0, random);
    let (cos, sin) = (
        (1.0 - slope * slope) / (1.0 + slope * slope),
        2.0 * slope / (1.0 + slope * slope),
    );
    if random.chance(50) {
        [cos, sin]
    } else {
        [-cos, -sin]
    }
}

impl Canvas {
    /// A gray gradient in a random direction.
    pub(super) fn background(random: &mut SplitMix64) -> Self {
        let middle = between(70.0, 185.0, random);
        let [down, right] = [between(-1.5, 1.5, random), between(-1.5, 1.5, random)];
        let half = SIDE as f64 / 2.0;
        let gray = |pixel: usize| {
            let (row, column) = ((pixel / SIDE) as f64 - half, (pixel % SIDE) as f64 - half);
            [middle + down * row + right * column; 3]
        };
        Self {
            pixels: (0..SIDE * SIDE).map(gray).collect(),
        }
    }

    /// A thin gray line.
    pub(super) fn stroke(&mut self, random: &mut SplitMix64) {
        let gray = between(20.0, 235.0, random);
        let [row, column] = [
            between(0.0, SIDE as f64, random),
            between(0.0, SIDE as f64, random),
        ];
        let ([cos, sin], half_len) = (direction(random), between(3.0, 8.0, random));
        self.paint([row, column], half_len + 1.0, [gray; 3], |down, right| {
            let (along, across) = (cos * down + sin * right, cos * right - sin * down);
            along * along <= half_len * half_len && across * across <= 0.36
        });
    }

    /// A dot too small to be a shape.
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
        let [rows, columns] = center.map(|place| {
            let clamp = |place: f64| place.clamp(0.0, SIDE as f64) as usize;
            clamp((place - reach).floor())..clamp((place + reach).ceil())
        });
        for (row, column) in rows.flat_map(|row| columns.clone().map(move |column| (row, column))) {
            let sample = |number: usize| (number as f64 + 0.5) / SAMPLES as f64;
            let hits = (0..SAMPLES * SAMPLES).filter(|number| {
                let down = row as f64 + sample(number / SAMPLES) - center[0];
                let right = column as f64 + sample(number % SAMPLES) - center[1];
                inside(down, right)
            });
            let share = hits.count() as f64 / (SAMPLES * SAMPLES) as f64;
            for (value, color) in self.pixels[row * SIDE + column].iter_mut().zip(color) {
                *value += share * (color - *value);
            }
        }
    }

    /// The picture with noise, as bytes.
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

impl Figure {
    /// A shape at a random place and angle, whole between these rows and these columns.
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
            .all(|(place, [low, high])| (low + margin..=high - margin).contains(place))
    }

    /// The same shape, standing upright, with its center on the nearest line of a grid in both
    /// directions.
    pub(super) fn upright(self, grid: f64) -> Self {
        let center = self.center.map(|place| (place / grid).round() * grid);
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

    pub(super) fn is_near(&self, other: &Self) -> bool {
        let [down, right] = [0, 1].map(|axis| self.center[axis] - other.center[axis]);
        let apart = (self.radius + other.radius) * REACH + 0.5;
        down * down + right * right < apart * apart
    }

    /// Whether a point is in the shape. All kinds have about twice the area of a square whose side
    /// is the radius.
    fn covers(&self, down: f64, right: f64) -> bool {
        let [cos, sin] = self.turn;
        let (u, v) = (
            (cos * down + sin * right) / self.radius,
            (cos * right - sin * down) / self.radius,
        );
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
