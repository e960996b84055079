//! What the fuzz targets share.

/// Stands between the parts of an input, so that its seeds can be read and written by people.
const SEPARATOR: &[u8] = b"\n=====\n";

/// The parts of an input that is several files; missing ones are empty.
pub fn parts<const N: usize>(input: &[u8]) -> [&[u8]; N] {
    let mut rest = Some(input);
    [(); N].map(|()| {
        let Some(bytes) = rest else { return &[][..] };
        match bytes.windows(SEPARATOR.len()).position(|window| window == SEPARATOR) {
            Some(end) => {
                rest = Some(&bytes[end + SEPARATOR.len()..]);
                &bytes[..end]
            }
            None => {
                rest = None;
                bytes
            }
        }
    })
}

/// The same, as text.
pub fn texts<const N: usize>(input: &str) -> [&str; N] {
    parts(input.as_bytes()).map(|part| str::from_utf8(part).expect("the separator is text, so what it cuts is text"))
}
