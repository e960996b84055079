//! The format of what is drawn, by the ending of its file.

use std::path::Path;

use polyglow_data::file;
use polyglow_predict::error::{usage, with_hint};
use polyglow_train::{Result, TrainError};

/// What is drawn: a page, or a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A page of HTML that answers to the pointer.
    Html,
    /// A picture of vector graphics.
    Svg,
    /// A picture of pixels.
    Png,
}

impl Format {
    /// The format of a file, by the ending of its name.
    ///
    /// # Errors
    /// There is none for that ending, which is a usage error.
    pub fn of(path: &Path) -> Result<Self> {
        match path
            .extension()
            .and_then(|ending| ending.to_str())
            .map(str::to_ascii_lowercase)
            .as_deref()
        {
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

/// Writes a page or a picture.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    let failed =
        |error| TrainError::from(error).context(format!("cannot write `{}`", path.display()));
    file::write(path, bytes.as_ref()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_that_returns_an_error_prints_its_message_and_its_hint() {
        let error: Box<dyn std::error::Error> =
            Box::new(Format::of(Path::new("a.gif")).unwrap_err());
        let expected = "`a.gif` ends neither in `.html` nor in `.png` or `.svg`\n\
                        hint: `.html` writes a page, `.png` and `.svg` a picture";
        assert_eq!(format!("{error:?}"), expected);
    }

    #[test]
    fn the_ending_is_the_format() {
        for (name, format) in [
            ("a.html", Format::Html),
            ("b/c.SVG", Format::Svg),
            ("map.v2.png", Format::Png),
        ] {
            assert_eq!(Format::of(Path::new(name)).unwrap(), format);
        }
        for name in ["a.gif", "png", "a.", ""] {
            let error = Format::of(Path::new(name)).unwrap_err();
            assert!(
                error.to_string().contains(name) && error.hint().is_some(),
                "{error}"
            );
        }
    }
}
