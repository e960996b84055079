//! The drawn pictures: what they promise, and that they stay as they are.

use std::collections::{HashMap, HashSet};

use polyglow_data::toy::shapes::{ShapeColor, ShapeKind, ShapePicture, Shapes};
use sha2::{Digest, Sha256};

#[test]
fn a_picture_is_a_function_of_seed_and_index() {
    assert_eq!(ShapePicture::draw(1, 2), ShapePicture::draw(1, 2));
    assert_ne!(
        ShapePicture::draw(1, 2).pixels,
        ShapePicture::draw(1, 3).pixels
    );
    assert_ne!(
        ShapePicture::draw(1, 2).pixels,
        ShapePicture::draw(2, 2).pixels
    );
}

/// Scores on these pictures can be compared only as long as they are these pictures.
#[test]
fn the_pictures_of_the_test_split_do_not_change() {
    let set = Shapes::All.split("test").unwrap();
    let mut hash = Sha256::new();
    hash.update(&set.pixels);
    hash.update(
        set.label_ids
            .iter()
            .flat_map(|label| label.to_le_bytes())
            .collect::<Vec<_>>(),
    );
    assert_eq!(
        hash.finalize()[..8],
        0x69f8_8bff_3351_029e_u64.to_be_bytes()
    );
}

#[test]
fn splits_have_their_sizes_and_share_no_picture() {
    let mut seen = HashSet::new();
    for (split, size) in Shapes::SPLITS.into_iter().zip([20_000, 1_000, 2_000]) {
        let set = Shapes::Kind.split(split).unwrap();
        assert_eq!(
            (set.len(), set.height, set.width, set.channels),
            (size, 32, 32, 3)
        );
        assert_eq!(set.pixels.len(), size * 32 * 32 * 3);
        assert!(
            (0..size).all(|index| seen.insert(Sha256::digest(set.example(index).pixels))),
            "{split}"
        );
    }
    assert_eq!(Shapes::Kind.split("dev"), None);
}

#[test]
fn all_labels_are_about_equally_frequent() {
    for (shapes, num_labels) in Shapes::ALL.into_iter().zip([4, 16, 12, 48]) {
        assert_eq!(Shapes::from_name(shapes.name()), Some(shapes));
        let set = shapes.split("test").unwrap();
        assert_eq!(set.labels.names().len(), num_labels);
        let mut counts = HashMap::new();
        for label in set.label_ids {
            *counts.entry(label).or_insert(0) += 1;
        }
        let expected = 2_000 / num_labels;
        assert!(counts.len() == num_labels, "{counts:?}");
        assert!(
            counts
                .values()
                .all(|count| (expected / 2..expected * 2).contains(count)),
            "{counts:?}"
        );
    }
    assert!(Shapes::All.labels().id("3 yellow triangle").is_some());
}

/// Whether a pixel has the hue of `color`, which backgrounds and strokes, being gray, do not have.
fn is_colored(pixel: &[u8], color: ShapeColor) -> bool {
    let [red, green, blue] = [0, 1, 2].map(|channel| i32::from(pixel[channel]));
    match color {
        ShapeColor::Red => red > green + 60 && red > blue + 60,
        ShapeColor::Green => green > red + 50 && green > blue + 40,
        ShapeColor::Blue => blue > red + 60 && blue > green + 50,
        ShapeColor::Yellow => red > blue + 70 && green > blue + 60,
    }
}

/// The sizes of the connected regions of this color, in pixels, without specks.
fn regions(picture: &ShapePicture) -> Vec<usize> {
    let mut colored: Vec<bool> = picture
        .pixels
        .chunks(3)
        .map(|pixel| is_colored(pixel, picture.color))
        .collect();
    let mut sizes = Vec::new();
    for start in 0..colored.len() {
        let (mut stack, mut size) = (vec![start], 0);
        while let Some(index) = stack.pop() {
            if std::mem::take(&mut colored[index]) {
                size += 1;
                let (row, column) = (index / 32, index % 32);
                let around = [
                    (row.wrapping_sub(1), column),
                    (row + 1, column),
                    (row, column.wrapping_sub(1)),
                    (row, column + 1),
                ];
                stack.extend(
                    around
                        .into_iter()
                        .filter(|&(row, column)| row < 32 && column < 32)
                        .map(|(r, c)| r * 32 + c),
                );
            }
        }
        sizes.extend((size > 9).then_some(size));
    }
    sizes
}

#[test]
fn a_picture_shows_as_many_shapes_as_it_says() {
    let right = (0..500).filter(|&index| {
        let picture = ShapePicture::draw(9, index);
        regions(&picture).len() == picture.count
    });
    // Noise may split a thin cross, and a speck of the same color may touch a shape.
    let right = right.count();
    assert!(right >= 480, "{right} of 500");
}

#[test]
fn all_kinds_have_the_same_area() {
    let mean = |kind: ShapeKind| {
        let pictures = (0..2_000)
            .map(|index| ShapePicture::draw(10, index))
            .filter(|picture| picture.kind == kind);
        let sizes: Vec<usize> = pictures
            .filter(|picture| picture.count == 1)
            .flat_map(|picture| regions(&picture))
            .collect();
        sizes.iter().sum::<usize>() as f64 / sizes.len() as f64
    };
    let areas = ShapeKind::ALL.map(mean);
    let (smallest, largest) = areas
        .iter()
        .fold((f64::MAX, 0.0_f64), |(low, high), &area| {
            (low.min(area), high.max(area))
        });
    assert!(largest / smallest < 1.2, "{areas:?}");
}
