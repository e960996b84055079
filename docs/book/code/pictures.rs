//! Draws the pictures of the book that need no trained model: `pictures FOLDER`.

use std::error::Error;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;
use polyglow_book::vocabulary;
use polyglow_model::init::ParamInit;
use polyglow_model::position::PositionEmbedding;
use polyglow_model::{ModelConfig, ModelError};

/// Width and height of a chart, and the size of letters, in pixels.
const SIZE: (u32, u32) = (720, 260);
const LETTERS: i32 = 14;
/// Colors that also differ in brightness.
const INKS: [RGBColor; 4] = [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(99, 99, 99)];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A line, and its name.
type Curve = (String, Vec<f64>);

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("name the folder of the pictures")?);
    register_font("sans-serif", FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT)
        .map_err(|_| "a font is broken")?;
    positions(&folder.join("positions.svg"))?;
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/by-length.md");
    by_length(&std::fs::read_to_string(results)?, &folder.join("by-length.svg"))
}

/// Hands of the clock that positions are, and how alike positions are.
fn positions(path: &Path) -> Result<(), Box<dyn Error>> {
    const LEN: usize = 64;
    const HOME: usize = 20;
    let table = table(LEN, 64)?;
    let products = table.clone().matmul(table.clone().transpose());
    let numbers = |tensor: Tensor<2>| tensor.into_data().iter::<f64>().collect::<Vec<_>>();
    let hand = |dim: usize| (format!("dimension {dim}"), numbers(table.clone().narrow(1, dim, 1)));
    let hands: Vec<Curve> = [0, 8, 16, 24].map(hand).into();
    let home = (format!("product with position {HOME}"), numbers(products.narrow(0, HOME, 1)));

    let area = SVGBackend::new(path, (SIZE.0, 2 * SIZE.1)).into_drawing_area();
    area.fill(&WHITE)?;
    let (upper, lower) = area.split_vertically(SIZE.1);
    let places: Vec<String> = (0..LEN).map(|place| place.to_string()).collect();
    chart(&upper, "position", &places, -1.1..1.1, &hands, SeriesLabelPosition::LowerLeft)?;
    chart(&lower, "position", &places, 0.0..35.0, &[home], SeriesLabelPosition::LowerLeft)?;
    Ok(area.present()?)
}

/// The position vectors of a model.
///
/// # Shapes
/// - output: `[len, d_model]`
fn table(len: usize, d_model: usize) -> Result<Tensor<2>, ModelError> {
    let device = Device::flex();
    let config = ModelConfig { d_model: Some(d_model), ..ModelConfig::default() }.transformer(vocabulary(9))?;
    let positions = PositionEmbedding::new(&config, &mut ParamInit::new(1, &device));
    Ok(positions.add(Tensor::zeros([1, len, d_model], &device), 0).squeeze_dim(0))
}

/// Shares of right sentences by length: a Markdown table whose first two columns say which sentences, and how many.
fn by_length(table: &str, path: &Path) -> Result<(), Box<dyn Error>> {
    let rows = table.lines().filter(|line| line.starts_with('|') && !line.contains("---"));
    let mut rows = rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let names = rows.next().ok_or("the table is empty")?;
    let rows: Vec<Vec<&str>> = rows.collect();
    let shares = |column: usize| rows.iter().map(|row| row[column].parse()).collect::<Result<Vec<f64>, _>>();
    let curves = (2..names.len()).map(|column| Ok((names[column].to_owned(), shares(column)?)));
    let curves: Vec<Curve> = curves.collect::<Result<_, std::num::ParseFloatError>>()?;
    let groups: Vec<String> = rows.iter().map(|row| row[0].split(',').next().unwrap_or_default().to_owned()).collect();

    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    chart(&area, names[0], &groups, 0.0..1.05, &curves, SeriesLabelPosition::MiddleMiddle)?;
    Ok(area.present()?)
}

/// Curves over places that have names.
fn chart(
    area: &Area<'_>,
    what: &str,
    places: &[String],
    range: std::ops::Range<f64>,
    curves: &[Curve],
    legend: SeriesLabelPosition,
) -> Result<(), Box<dyn Error>> {
    let last = places.len() - 1;
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .margin_right(40)
        .x_label_area_size(40)
        .y_label_area_size(44)
        .build_cartesian_2d(0.0..last as f64, range)?;
    let name = |place: &f64| places.get(place.round() as usize).cloned().unwrap_or_default();
    // Adding 0 turns a rounded -0 into 0.
    let tenths = |value: &f64| format!("{:.1}", (value * 10.0).round() / 10.0 + 0.0);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(places.len().min(9))
        .y_labels(6)
        .light_line_style(WHITE)
        .x_label_formatter(&name)
        .y_label_formatter(&tenths)
        .x_desc(what)
        .label_style(("sans-serif", LETTERS))
        .draw()?;
    for ((name, values), ink) in curves.iter().zip(INKS) {
        let points: Vec<(f64, f64)> = values.iter().enumerate().map(|(place, value)| (place as f64, *value)).collect();
        chart
            .draw_series([PathElement::new(points, ink.stroke_width(2))])?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], ink.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(legend)
        .background_style(WHITE.mix(0.8))
        .label_font(("sans-serif", LETTERS))
        .draw()?;
    Ok(())
}
