//! Any bytes as the input of `translate`: as many lines come out as go in, none with a line break
//! in it.

#![no_main]

use std::io::Cursor;
use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use polyglow_data::lines::Lines;
use polyglow_fuzz::parts;
use polyglow_model::search::SearchRequest;
use polyglow_predict::runner::Runner;
use polyglow_predict::translate::Request;

static RUNNER: LazyLock<Runner> = LazyLock::new(polyglow_fuzz::runner);

fuzz_target!(|input: &[u8]| {
    let [bytes, prefix, constraint] = parts(input);
    let Ok(lines) = Lines::from_reader(Cursor::new(bytes.to_vec()), Path::new("input")) else {
        return;
    };
    let Ok(lines) = lines.take(100).collect::<Result<Vec<String>, _>>() else {
        return;
    };
    let texts: Vec<&str> = lines.iter().map(String::as_str).collect();
    let best = RUNNER.best(&texts).expect("any text can be translated");
    assert_eq!(best.len(), lines.len());
    assert!(best.iter().all(|line| !line.contains(['\n', '\r'])));
    assert!(
        texts
            .iter()
            .zip(&best)
            .all(|(line, best)| !line.trim().is_empty() || best.is_empty())
    );
    let wish = Request {
        text: texts.first().copied().unwrap_or("1 2").to_owned(),
        prefix: String::from_utf8_lossy(prefix).into_owned(),
        constraints: vec![String::from_utf8_lossy(constraint).into_owned()],
        ..Request::default()
    };
    // A wish that cannot be fulfilled is an error.
    let _ = RUNNER.translate(&[wish], &SearchRequest::default());
});
