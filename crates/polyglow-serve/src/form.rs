//! Forms, as browsers and clients of LibreTranslate send them. Of several fields with one name the
//! first counts, as in LibreTranslate; fields of the address come before those of the body.

use std::convert::Infallible;

use axum::body::Bytes;
use futures_util::stream;
use multer::{Field, Multipart, parse_boundary};
use percent_encoding::percent_decode;
use serde_json::{Map, Value};

use crate::failure::Failure;

/// Parts of a form, at most: the limit of LibreTranslate's framework.
const MAX_PARTS: usize = 1000;
/// The names of the character sets that are read.
const CHARACTER_SETS: [&str; 3] = ["utf-8", "utf8", "us-ascii"];

/// Adds the fields of an address, or of a body of type `application/x-www-form-urlencoded`.
///
/// # Errors
/// It is not UTF-8.
pub(crate) fn add_urlencoded(fields: &mut Map<String, Value>, text: &[u8]) -> Result<(), Failure> {
    // Checked for all fields at once: what stands between them is ASCII.
    if percent_decode(text).decode_utf8().is_err() {
        return Err(Failure::bad_request(
            "Invalid request: the form is not UTF-8",
        ));
    }
    for (name, value) in form_urlencoded::parse(text) {
        fields.entry(name).or_insert_with(|| value.into());
    }
    Ok(())
}

/// Adds the fields of a body of type `multipart/form-data`, whose content type names the boundary
/// between its parts. Files are ignored.
///
/// # Errors
/// It is damaged, has too many parts, or has text that is not UTF-8.
pub(crate) async fn add_multipart(
    fields: &mut Map<String, Value>,
    content_type: &str,
    body: Bytes,
) -> Result<(), Failure> {
    let boundary = parse_boundary(content_type).unwrap_or_default();
    if boundary.is_empty() {
        return Err(Failure::bad_request(
            "Invalid request: the content type multipart/form-data needs a boundary",
        ));
    }
    let mut parts = Multipart::new(stream::iter([Ok::<_, Infallible>(body)]), boundary);
    let mut num_parts = 0;
    while let Some(part) = parts.next_field().await.map_err(|error| damaged(&error))? {
        num_parts += 1;
        if num_parts > MAX_PARTS {
            return Err(Failure::bad_request(format!(
                "Invalid request: the form has more than {MAX_PARTS} parts"
            )));
        }
        if part.file_name().is_some() {
            continue;
        }
        let Some(name) = part.name().map(str::to_owned) else {
            return Err(Failure::bad_request(
                "Invalid request: a part of the form has no name",
            ));
        };
        let text = text(part, &name).await?;
        fields.entry(name).or_insert_with(|| text.into());
    }
    Ok(())
}

/// Returns the text of a part.
///
/// # Errors
/// It is not UTF-8.
async fn text(part: Field<'_>, name: &str) -> Result<String, Failure> {
    let content_type = part.content_type();
    if let Some(charset) = content_type.and_then(|kind| kind.get_param("charset")) {
        let charset = charset.as_str().to_lowercase();
        if !CHARACTER_SETS.contains(&&*charset) {
            let error =
                format!("Invalid request: {name} is in the character set {charset}; send UTF-8");
            return Err(Failure::bad_request(error));
        }
    }
    let bytes = part.bytes().await.map_err(|error| damaged(&error))?;
    String::from_utf8(bytes.into())
        .map_err(|_| Failure::bad_request(format!("Invalid request: {name} is not UTF-8")))
}

fn damaged(error: &multer::Error) -> Failure {
    Failure::bad_request(format!("Invalid request: the form is damaged: {error}"))
}
