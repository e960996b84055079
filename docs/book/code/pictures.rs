//! Draws the pictures of the book that need no trained model: `pictures FOLDER`.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor};
use polyglow_model::Position;
use polyglow_model::init::ParamInit;
use polyglow_model::position::PositionEmbedding;

/// Width and height of a chart, and the room for its axes, in pixels.
const SIZE: (f64, f64) = (720.0, 260.0);
const LEFT: f64 = 52.0;
const RIGHT: f64 = 48.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 46.0;
/// Between the beginnings of two names of curves.
const NAME_WIDTH: f64 = 160.0;
/// The most places that are named.
const NAMED: usize = 9;
/// Colors that also differ in brightness.
const INKS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#636363"];

/// A line, and its name.
type Curve = (String, Vec<f64>);

/// What a chart shows.
struct Chart<'a> {
    /// What the places are.
    what: &'a str,
    places: &'a [String],
    range: (f64, f64),
    /// Between two marks of the vertical axis.
    step: f64,
    /// Their names stand above the chart.
    curves: &'a [Curve],
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(
        std::env::args()
            .nth(1)
            .ok_or("name the folder of the pictures")?,
    );
    fs::write(folder.join("positions.svg"), positions())?;
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/by-length.md");
    Ok(fs::write(
        folder.join("by-length.svg"),
        by_length(&fs::read_to_string(results)?)?,
    )?)
}

/// Hands of the clock that positions are, and how alike positions are.
fn positions() -> String {
    const LEN: usize = 64;
    const HOME: usize = 20;
    let table = table(LEN, 64);
    let products = table.clone().matmul(table.clone().transpose());
    let numbers = |tensor: Tensor<2>| tensor.into_data().iter::<f64>().collect::<Vec<_>>();
    let hand = |dim: usize| {
        (
            format!("dimension {dim}"),
            numbers(table.clone().narrow(1, dim, 1)),
        )
    };
    let hands: Vec<Curve> = [0, 8, 16, 24].map(hand).into();
    let home = (
        format!("product with position {HOME}"),
        numbers(products.narrow(0, HOME, 1)),
    );

    let places: Vec<String> = (0..LEN).map(|place| place.to_string()).collect();
    let upper = Chart {
        what: "position",
        places: &places,
        range: (-1.1, 1.1),
        step: 0.5,
        curves: &hands,
    };
    let lower = Chart {
        what: "position",
        places: &places,
        range: (0.0, 35.0),
        step: 5.0,
        curves: &[home],
    };
    svg(&[upper, lower])
}

/// The position vectors of a model.
///
/// # Shapes
/// - output: `[len, d_model]`
fn table(len: usize, d_model: usize) -> Tensor<2> {
    let device = Device::flex();
    let init = &mut ParamInit::new(1, &device);
    let positions = PositionEmbedding::new(Position::Sinusoidal, len, d_model, init);
    positions
        .add(Tensor::zeros([1, len, d_model], &device), 0)
        .squeeze_dim(0)
}

/// Shares of right sentences by length: a Markdown table whose first two columns say which
/// sentences, and how many.
fn by_length(table: &str) -> Result<String, Box<dyn Error>> {
    let rows = table
        .lines()
        .filter(|line| line.starts_with('|') && !line.contains("---"));
    let mut rows = rows.map(|line| {
        line.trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect::<Vec<_>>()
    });
    let names = rows.next().ok_or("the table is empty")?;
    let rows: Vec<Vec<&str>> = rows.collect();
    let shares = |column: usize| {
        rows.iter()
            .map(|row| row[column].parse())
            .collect::<Result<Vec<f64>, _>>()
    };
    let curves = (2..names.len()).map(|column| Ok((names[column].to_owned(), shares(column)?)));
    let curves: Vec<Curve> = curves.collect::<Result<_, std::num::ParseFloatError>>()?;
    let groups: Vec<String> = rows
        .iter()
        .map(|row| row[0].split(',').next().unwrap_or_default().to_owned())
        .collect();

    Ok(svg(&[Chart {
        what: names[0],
        places: &groups,
        range: (0.0, 1.05),
        step: 0.2,
        curves: &curves,
    }]))
}

/// Charts, one below the other.
fn svg(charts: &[Chart<'_>]) -> String {
    let (width, height) = (SIZE.0, SIZE.1 * charts.len() as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<path fill=\"#fff\" d=\"M0 0h{width}v{height}h-{width}z\"/>\n"
    );
    for (number, chart) in charts.iter().enumerate() {
        svg.extend([
            format!(
                "<g transform=\"translate(0 {})\">\n",
                SIZE.1 * number as f64
            ),
            chart.elements(),
        ]);
        svg += "</g>\n";
    }
    svg + "</svg>\n"
}

impl Chart<'_> {
    fn elements(&self) -> String {
        let (width, height) = (SIZE.0 - LEFT - RIGHT, SIZE.1 - TOP - BOTTOM);
        let last = self.places.len() - 1;
        let x = |place: usize| LEFT + width * place as f64 / last as f64;
        let y = |value: f64| TOP + height * (self.range.1 - value) / (self.range.1 - self.range.0);
        let mut out = String::new();
        let mut line = |text: String| out += &(text + "\n");
        let first = (self.range.0 / self.step).ceil() as i32;
        for mark in (first..)
            .map(|mark| f64::from(mark) * self.step)
            .take_while(|mark| *mark <= self.range.1)
        {
            let (y, end) = (y(mark), SIZE.0 - RIGHT);
            line(format!(
                "<path stroke=\"#ddd\" d=\"M{LEFT} {y:.1}H{end}\"/>"
            ));
            line(format!(
                "<text x=\"{:.1}\" y=\"{y:.1}\" dy=\"0.32em\" text-anchor=\"end\">{mark:.1}</text>",
                LEFT - 6.0
            ));
        }
        for (place, name) in self
            .places
            .iter()
            .enumerate()
            .step_by(self.places.len().div_ceil(NAMED))
        {
            let below = TOP + height + 18.0;
            line(format!(
                "<text x=\"{:.1}\" y=\"{below}\" text-anchor=\"middle\">{name}</text>",
                x(place)
            ));
        }
        let middle = LEFT + width / 2.0;
        line(format!(
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            SIZE.1 - 8.0,
            self.what
        ));
        for ((number, (name, values)), ink) in self.curves.iter().enumerate().zip(INKS) {
            let points: Vec<String> = values
                .iter()
                .enumerate()
                .map(|(place, value)| format!("{:.1},{:.1}", x(place), y(*value)))
                .collect();
            let points = points.join(" ");
            line(format!(
                "<polyline fill=\"none\" stroke=\"{ink}\" stroke-width=\"2\" points=\"{points}\"/>"
            ));
            let (left, middle) = (LEFT + NAME_WIDTH * number as f64, TOP / 2.0 - 2.0);
            line(format!(
                "<path stroke=\"{ink}\" stroke-width=\"2\" d=\"M{left:.1} {middle:.1}h16\"/>"
            ));
            line(format!(
                "<text x=\"{:.1}\" y=\"{middle:.1}\" dy=\"0.32em\">{name}</text>",
                left + 22.0
            ));
        }
        out
    }
}
