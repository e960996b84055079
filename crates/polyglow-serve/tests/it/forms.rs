//! Forms as `multipart/form-data`, which LibreTranslate's own page and its client for PHP send.

use axum::Router;
use polyglow_serve::{Keys, Limits, Server};
use serde_json::json;

use crate::setup::{Answer, model, post, runner, server};

const CONTENT_TYPE: &str = "multipart/form-data; boundary=----polyglow";

/// A part of a form: its headers, and its content.
type Part<'a> = (&'a str, &'a [u8]);

fn field(name: &str) -> String {
    format!("Content-Disposition: form-data; name=\"{name}\"")
}

/// Returns the body of a form with these parts.
fn form(parts: &[Part]) -> Vec<u8> {
    let mut body = Vec::new();
    for (headers, content) in parts {
        body.extend(format!("------polyglow\r\n{headers}\r\n\r\n").as_bytes());
        body.extend(*content);
        body.extend(b"\r\n");
    }
    body.extend(b"------polyglow--\r\n");
    body
}

fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let headers: Vec<String> = fields.iter().map(|(name, _)| field(name)).collect();
    let parts: Vec<Part> = headers
        .iter()
        .zip(fields)
        .map(|(headers, (_, text))| (&**headers, text.as_bytes()))
        .collect();
    form(&parts)
}

async fn translate(router: &Router, body: Vec<u8>) -> Answer {
    post(router, "/translate", CONTENT_TYPE, body).await
}

#[tokio::test]
async fn a_form_in_parts_says_the_same_as_json() {
    let router = server().router();
    let best = runner().best(&["1 2 3", "4 5"]).expect("it translates");
    let usual = [
        ("source", "en"),
        ("target", "de"),
        ("format", "text"),
        ("api_key", ""),
        ("alternatives", "0"),
    ];
    let answer = translate(&router, fields(&[&[("q", "1 2 3")], &usual[..]].concat())).await;
    assert_eq!(answer.json(), json!({ "translatedText": best[0] }));
    // Browsers write line breaks as CR LF.
    let answer = translate(
        &router,
        fields(&[&[("q", "1 2 3\r\n4 5\r\n")], &usual[..]].concat()),
    )
    .await;
    assert_eq!(
        answer.json()["translatedText"],
        format!("{}\n{}\n", best[0], best[1])
    );
    let quoted = post(
        &router,
        "/translate",
        "Multipart/Form-Data; charset=utf-8; boundary=\"----polyglow\"",
        fields(&[&[("q", "1 2 3")], &usual[..]].concat()),
    );
    assert_eq!(quoted.await.json()["translatedText"], best[0]);
    let [q, source, target] = ["q", "source", "target"].map(field);
    let typed = format!("{q}\r\nContent-Type: text/plain; charset=UTF-8");
    let answer = translate(
        &router,
        form(&[(&typed, b"1 2 3"), (&source, b"en"), (&target, b"de")]),
    )
    .await;
    assert_eq!(answer.json()["translatedText"], best[0]);
    let detected = post(
        &router,
        "/detect",
        CONTENT_TYPE,
        fields(&[("q", "This is an ordinary English sentence.")]),
    )
    .await;
    assert_eq!(detected.json()[0]["language"], "en");
    let html = fields(&[
        ("q", "<p>1 2 3</p>"),
        ("source", "en"),
        ("target", "de"),
        ("format", "html"),
    ]);
    assert_eq!(
        translate(&router, html).await.json()["translatedText"],
        format!("<p>{}</p>", best[0])
    );
}

#[tokio::test]
async fn the_first_of_several_fields_with_the_same_name_counts() {
    let router = server().router();
    let best = runner().best(&["1 2 3"]).expect("it translates").remove(0);
    let twice = fields(&[
        ("q", "1 2 3"),
        ("q", "4 5"),
        ("source", "en"),
        ("target", "de"),
        ("target", "xx"),
    ]);
    assert_eq!(
        translate(&router, twice).await.json(),
        json!({ "translatedText": best })
    );
    let content_type = "application/x-www-form-urlencoded";
    let twice = post(
        &router,
        "/translate",
        content_type,
        "q=1+2+3&q=4+5&source=en&target=de&source=xx",
    )
    .await;
    assert_eq!(twice.json(), json!({ "translatedText": best }));
    let query = post(
        &router,
        "/translate?q=1+2+3&target=de",
        CONTENT_TYPE,
        fields(&[("q", "4 5"), ("source", "en")]),
    )
    .await;
    assert_eq!(query.json(), json!({ "translatedText": best }));
}

#[tokio::test]
async fn keys_are_read_from_parts() {
    let keys = Keys::parse("school\n", true);
    let router = Server::new(vec![model("en", "de")], Limits::default(), keys).router();
    let ask = async |key: &str| {
        translate(
            &router,
            fields(&[
                ("q", "1"),
                ("source", "en"),
                ("target", "de"),
                ("api_key", key),
            ]),
        )
        .await
    };
    assert_eq!(ask("school").await.status, 200);
    assert_eq!(ask("other").await.error(403), "Invalid API key");
    ask("").await.error(400);
}

#[tokio::test]
async fn errors_say_what_is_wrong_with_a_form() {
    let router = server().router();
    let [q, source, target] = ["q", "source", "target"].map(field);
    let languages = [(&*source, &b"en"[..]), (&*target, b"de")];
    let latin = format!("{q}\r\nContent-Type: text/plain; charset=ISO-8859-1");
    let file = format!("{q}; filename=\"a.txt\"\r\nContent-Type: text/plain");
    let many: Vec<Part> = vec![(&q, b"1"); 1001];
    let (whole, more) = (
        fields(&[("q", "1")]),
        fields(&[("q", "1"), ("alternatives", "-1")]),
    );
    for (content_type, body, expected) in [
        (
            "multipart/form-data",
            whole.clone(),
            "the content type multipart/form-data needs a boundary",
        ),
        (
            "multipart/form-data; boundary=",
            whole.clone(),
            "needs a boundary",
        ),
        (
            "multipart/form-data; boundary=other",
            whole.clone(),
            "the form is damaged",
        ),
        (
            CONTENT_TYPE,
            whole[..whole.len() - 20].to_vec(),
            "the form is damaged",
        ),
        (CONTENT_TYPE, b"no form".to_vec(), "the form is damaged"),
        (
            CONTENT_TYPE,
            b"------polyglow--\r\n".to_vec(),
            "missing q parameter",
        ),
        (
            CONTENT_TYPE,
            form(&[(&file, b"1"), languages[0], languages[1]]),
            "missing q parameter",
        ),
        (
            CONTENT_TYPE,
            form(&[(&latin, b"1"), languages[0], languages[1]]),
            "q is in the character set iso-8859-1; send UTF-8",
        ),
        (
            CONTENT_TYPE,
            form(&[(&q, b"gr\xfc\xdfe"), languages[0], languages[1]]),
            "q is not UTF-8",
        ),
        (
            CONTENT_TYPE,
            form(&[("Content-Disposition: form-data", b"1")]),
            "a part of the form has no name",
        ),
        (
            CONTENT_TYPE,
            form(&many),
            "the form has more than 1000 parts",
        ),
        (CONTENT_TYPE, more, "missing source parameter"),
        (
            "application/x-www-form-urlencoded",
            b"q=gr%FC%DFe&source=en&target=de".to_vec(),
            "the form is not UTF-8",
        ),
        (
            "application/x-www-form-urlencoded",
            b"q=gr\xfc\xdfe&source=en&target=de".to_vec(),
            "the form is not UTF-8",
        ),
    ] {
        let error = post(&router, "/translate", content_type, body)
            .await
            .error(400);
        assert!(
            error.starts_with("Invalid request: ") && error.contains(expected),
            "{error} for {expected}"
        );
    }
    let small = Limits {
        body: 100,
        characters: Some(5),
        ..Limits::default()
    };
    let router = Server::new(vec![model("en", "de")], small, Keys::default()).router();
    translate(&router, fields(&[("q", &"1 ".repeat(100))]))
        .await
        .error(413);
    let router = Server::new(
        vec![model("en", "de")],
        Limits {
            characters: Some(5),
            ..Limits::default()
        },
        Keys::default(),
    );
    let long = fields(&[("q", "1 2 3 4"), ("source", "en"), ("target", "de")]);
    let error = translate(&router.router(), long).await.error(400);
    assert_eq!(error, "Invalid request: request (7) exceeds text limit (5)");
}
