//! File formats of pages and pictures, chosen by the extension of a file's name.

use std::path::Path;

use polyglow_data::file;
use polyglow_predict::error::{usage, with_hint};
use polyglow_train::{Result, TrainError};

/// The format in which a view is written: a page or a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An interactive page of HTML.
    Html,
    /// A vector image, dark on white.
    Svg,
    /// A raster image, dark on white, with two pixels for each of an SVG.
    Png,
}

impl Format {
    /// Returns the format of a file by the extension of its name, in upper or lower case.
    ///
    /// # Errors
    /// The extension is none of `html`, `svg` and `png`, which is a usage error.
    pub fn from_path(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("html") => Ok(Self::Html),
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            _ => {
                let error = TrainError::new(format!(
                    "`{}` ends neither in `.html` nor in `.png` or `.svg`",
                    path.display()
                ));
                Err(with_hint(
                    usage(error),
                    "`.html` writes a page, `.png` and `.svg` a picture",
                ))
            }
        }
    }
}

/// Writes a page or a picture to `path`, of which an error tells.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    file::write(path, bytes.as_ref()).map_err(|error| {
        TrainError::from(error).context(format!("cannot write `{}`", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_that_returns_an_error_prints_its_message_and_its_hint() {
        let error: Box<dyn std::error::Error> =
            Box::new(Format::from_path(Path::new("a.gif")).unwrap_err());
        let expected = "`a.gif` ends neither in `.html` nor in `.png` or `.svg`\n\
                        hint: `.html` writes a page, `.png` and `.svg` a picture";
        assert_eq!(format!("{error:?}"), expected);
    }

    #[test]
    fn the_extension_is_the_format() {
        for (name, format) in [
            ("a.html", Format::Html),
            ("b/c.SVG", Format::Svg),
            ("map.v2.png", Format::Png),
        ] {
            assert_eq!(Format::from_path(Path::new(name)).unwrap(), format);
        }
        for name in ["a.gif", "png", "a.", ""] {
            let error = Format::from_path(Path::new(name)).unwrap_err();
            assert!(
                error.to_string().contains(name) && error.hint().is_some(),
                "{error}"
            );
        }
    }
}
