//! LibreTranslate's interface, field by field and error by error.

use polyglow_serve::{Keys, Limits, Server};
use serde_json::json;

use crate::setup::{get, model, post, post_json, runner, send, server};

const FORM: &str = "application/x-www-form-urlencoded";

#[tokio::test]
async fn a_text_is_translated_as_by_the_library() {
    let router = server().router();
    let best = runner()
        .best(&["1 2 3", "4 5", "6"])
        .expect("it translates");
    let answer = post_json(
        &router,
        "/translate",
        &json!({ "q": "1 2 3", "source": "en", "target": "de" }),
    )
    .await;
    assert_eq!(answer.json(), json!({ "translatedText": best[0] }));
    // Lines, sentences and what is between them.
    let q = " 1 2 3\r\n\r\n4 5\n--\n6 ";
    let answer = post_json(
        &router,
        "/translate",
        &json!({ "q": q, "source": "EN", "target": "De", "format": "text" }),
    )
    .await;
    assert_eq!(
        answer.json()["translatedText"],
        format!(" {}\n\n{}\n--\n{} ", best[0], best[1], best[2])
    );
    let q = json!({ "q": ["4 5", "", "6"], "source": "en", "target": "de", "api_key": null, "alternatives": "0" });
    assert_eq!(
        post_json(&router, "/translate", &q).await.json(),
        json!({ "translatedText": [best[1], "", best[2]] })
    );
    let q = json!({ "q": "<p>4 5<br>6</p>", "source": "en", "target": "de", "format": "html", "alternatives": 1 });
    let page = format!("<p>{}<br>{}</p>", best[1], best[2]);
    assert_eq!(
        post_json(&router, "/translate", &q).await.json(),
        json!({ "translatedText": page, "alternatives": [] })
    );
}

#[tokio::test]
async fn inline_tags_follow_their_words_and_attributes_are_translated_on_request() {
    let router = server().router();
    let best = runner().best(&["1 2 3", "4 5"]).expect("it translates");
    let page = "<p title='4 5'>1 <b>2</b>\n3</p>";
    let ask = async |body: serde_json::Value| post_json(&router, "/translate", &body).await;
    let q = json!({ "q": page, "source": "en", "target": "de", "format": "html" });
    let translated = ask(q).await.json()["translatedText"]
        .as_str()
        .expect("a page")
        .to_owned();
    let text = translated
        .strip_prefix("<p title='4 5'>")
        .and_then(|rest| rest.strip_suffix("</p>"))
        .expect("its tags");
    assert_eq!(
        text.replace("<b>", "").replace("</b>", ""),
        best[0],
        "one sentence: {translated}"
    );
    let (before, rest) = text.split_once("<b>").expect("it starts");
    let (bold, after) = rest.split_once("</b>").expect("and ends");
    assert!(!bold.is_empty(), "{translated}");
    assert!(
        !before.contains("<b>") && !after.contains("<b>"),
        "{translated}"
    );
    let q = json!({ "q": page, "source": "en", "target": "de", "format": "html", "translate_attributes": true });
    let translated = ask(q).await.json()["translatedText"]
        .as_str()
        .expect("a page")
        .to_owned();
    assert!(
        translated.starts_with(&format!("<p title=\"{}\">", best[1])),
        "{translated}"
    );
    // Through a pivot language, and without any model.
    let models = vec![model("de", "en"), model("en", "fr")];
    let pivoting = Server::new(models, Limits::default(), Keys::default()).router();
    for target in ["fr", "de"] {
        let q =
            json!({ "q": "<p>1 <i>2</i></p>", "source": "de", "target": target, "format": "html" });
        let translated =
            post_json(&pivoting, "/translate", &q).await.json()["translatedText"].to_string();
        assert!(
            translated.matches("<i>").count() == 1 && translated.matches("</i>").count() == 1,
            "{translated}"
        );
        assert!(
            target != "de" || translated.contains("<p>1 <i>2</i></p>"),
            "{translated}"
        );
    }
    let q = json!({ "q": "1", "source": "en", "target": "de", "format": "html", "translate_attributes": 2 });
    let error = ask(q).await.error(400);
    assert_eq!(
        error,
        "Invalid request: translate_attributes parameter is not true or false"
    );
}

#[tokio::test]
async fn forms_and_query_strings_are_read_as_json_is() {
    let router = server().router();
    let best = runner().best(&["1 2 3"]).expect("it translates").remove(0);
    let answer = post(&router, "/translate", FORM, "q=1+2+3&source=en&target=de").await;
    assert_eq!(answer.json()["translatedText"], best);
    let answer = post(
        &router,
        "/translate?q=1%202%203&source=en&target=de",
        FORM,
        "",
    )
    .await;
    assert_eq!(answer.json()["translatedText"], best);
    assert_eq!(answer.headers["access-control-allow-origin"], "*");
    let body = json!({ "q": "1 2 3", "source": "en", "target": "de" }).to_string();
    let answer = post(
        &router,
        "/translate",
        "Application/JSON; charset=utf-8",
        body,
    )
    .await;
    assert_eq!(answer.json()["translatedText"], best);
    let same = post(&router, "/translate", FORM, "q=1+2+3&source=de&target=de").await;
    assert_eq!(same.json()["translatedText"], "1 2 3");
}

#[tokio::test]
async fn alternatives_differ_from_the_best_and_from_each_other() {
    let router = server().router();
    let q = json!({ "q": ["1 2 3", "4"], "source": "en", "target": "de", "alternatives": 3 });
    let answer = post_json(&router, "/translate", &q).await.json();
    let (best, alternatives) = (
        &answer["translatedText"],
        answer["alternatives"]
            .as_array()
            .expect("one for each text"),
    );
    assert_eq!(alternatives.len(), 2);
    assert_eq!(
        alternatives[0].as_array().map(Vec::len),
        Some(3),
        "{answer}"
    );
    for (index, texts) in alternatives.iter().enumerate() {
        let texts = texts.as_array().expect("a list");
        for (rank, text) in texts.iter().enumerate() {
            assert!(
                *text != best[index] && !texts[..rank].contains(text),
                "{answer}"
            );
        }
    }
}

#[tokio::test]
async fn the_language_of_a_text_is_detected() {
    let models = || vec![model("en", "de"), model("de", "en"), model("en", "fr")];
    let router = Server::new(models(), Limits::default(), Keys::default()).router();
    let text = "Das ist ein ganz gewöhnlicher deutscher Satz.";
    let answer = post_json(
        &router,
        "/translate",
        &json!({ "q": text, "source": "auto", "target": "en" }),
    )
    .await
    .json();
    assert_eq!(answer["detectedLanguage"]["language"], "de");
    let answer = post_json(
        &router,
        "/translate",
        &json!({ "q": [text, text], "source": "auto", "target": "fr" }),
    )
    .await;
    assert_eq!(
        answer.json()["detectedLanguage"]
            .as_array()
            .expect("one for each text")
            .len(),
        2
    );
    let detected = post(
        &router,
        "/detect",
        FORM,
        "q=This+is+quite+an+ordinary+English+sentence.",
    )
    .await
    .json();
    assert_eq!(detected[0]["language"], "en");
    assert!(
        detected[0]["confidence"]
            .as_f64()
            .is_some_and(|percent| percent > 0.0 && percent <= 100.0),
        "{detected}"
    );
}

#[tokio::test]
async fn an_unknown_language_must_be_given_by_the_client_unless_there_is_only_one_model() {
    let basque = "Atzo gauean giltzak bulegoan ahaztu nituen, eta emaztea lanetik itzuli arte itxaron behar izan nuen.";
    let french =
        "J'ai oublié mes clés au bureau, donc je dois attendre que ma femme rentre du travail.";
    let two = Server::new(
        vec![model("en", "de"), model("de", "en")],
        Limits::default(),
        Keys::default(),
    )
    .router();
    let one = Server::new(vec![model("en", "de")], Limits::default(), Keys::default()).router();
    let unknown =
        "Invalid request: the language of the text is unknown; set source to one of en, de";
    for text in [french, "ມະນຸດທຸກຄົນເກີດມາມີກຽດສັກສີ", "ᏂᎦᏓ ᎠᏂᏴᏫ ᏂᎨᎫᏓᎸᎾ"]
    {
        let detected = post_json(&two, "/detect", &json!({ "q": text }))
            .await
            .json();
        assert_eq!(
            detected,
            json!([{ "language": "en", "confidence": 0.0 }]),
            "{text}"
        );
        let q = json!({ "q": text, "source": "auto", "target": "de" });
        assert_eq!(
            post_json(&two, "/translate", &q).await.error(400),
            unknown,
            "{text}"
        );
        let answer = post_json(&one, "/translate", &q).await.json();
        assert_eq!(
            answer["detectedLanguage"],
            json!({ "language": "en", "confidence": 0.0 }),
            "{text}"
        );
    }
    let detected = post_json(&two, "/detect", &json!({ "q": basque }))
        .await
        .json();
    assert!(
        detected[0]["confidence"]
            .as_f64()
            .is_some_and(|percent| percent <= 10.0),
        "{detected}"
    );
    // A text without letters needs no language.
    for text in ["12 34", "👍 !?", "…"] {
        let detected = post_json(&two, "/detect", &json!({ "q": text }))
            .await
            .json();
        assert_eq!(detected[0]["confidence"], 0.0, "{text}");
        let answer = post_json(
            &two,
            "/translate",
            &json!({ "q": text, "source": "auto", "target": "en" }),
        )
        .await
        .json();
        assert_eq!(
            answer["detectedLanguage"],
            json!({ "language": "en", "confidence": 0.0 }),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn errors_have_the_messages_that_clients_know() {
    let limits = Limits {
        characters: Some(20),
        texts: Some(2),
        ..Limits::default()
    };
    let router = Server::new(
        vec![model("en", "de"), model("fr", "it")],
        limits,
        Keys::default(),
    )
    .router();
    for (body, expected) in [
        (
            json!({ "source": "en", "target": "de" }),
            "Invalid request: missing q parameter",
        ),
        (
            json!({ "q": "", "source": "en", "target": "de" }),
            "Invalid request: missing q parameter",
        ),
        (
            json!({ "q": "1", "target": "de" }),
            "Invalid request: missing source parameter",
        ),
        (
            json!({ "q": "1", "source": "en" }),
            "Invalid request: missing target parameter",
        ),
        (
            json!({ "q": "1", "source": "en", "target": "de", "alternatives": "many" }),
            "Invalid request: alternatives parameter is not a number",
        ),
        (
            json!({ "q": "1", "source": "en", "target": "de", "alternatives": [1] }),
            "Invalid request: alternatives parameter is not a number",
        ),
        (
            json!({ "q": "1", "source": "en", "target": "de", "alternatives": true }),
            "Invalid request: alternatives parameter is not a number",
        ),
        (
            json!({ "q": "1", "source": "en", "target": "de", "alternatives": 1.5 }),
            "Invalid request: alternatives parameter is not a number",
        ),
        (
            json!({ "q": "1", "source": "en", "target": "de", "alternatives": -1 }),
            "Invalid request: alternatives parameter must be >= 0",
        ),
        (
            json!({ "q": "1", "source": "en", "target": "de", "alternatives": "-1" }),
            "Invalid request: alternatives parameter must be >= 0",
        ),
        (
            json!({ "q": "1", "source": "en", "target": "de", "alternatives": 1e30 }),
            "Invalid request: alternatives parameter must be <= 3",
        ),
        (
            json!({ "q": "1", "source": ["en"], "target": "de" }),
            "Invalid request: source parameter is not a text",
        ),
        (
            json!({ "q": "1", "source": "en", "target": "de", "format": ["html"] }),
            "Invalid request: format parameter is not a text",
        ),
        (
            json!({ "q": "1", "source": "en", "target": "de", "alternatives": 4 }),
            "Invalid request: alternatives parameter must be <= 3",
        ),
        (
            json!({ "q": "123456789 123456789 1", "source": "en", "target": "de" }),
            "Invalid request: request (21) exceeds text limit (20)",
        ),
        (
            json!({ "q": ["1", "2", "3"], "source": "en", "target": "de" }),
            "Invalid request: request (3) exceeds text limit (2)",
        ),
        (
            json!({ "q": "1", "source": "xx", "target": "yy" }),
            "xx is not supported",
        ),
        (
            json!({ "q": "1", "source": "en", "target": "yy" }),
            "yy is not supported",
        ),
        (
            json!({ "q": "1", "source": "en", "target": "de", "format": "pdf" }),
            "pdf format is not supported",
        ),
        (
            json!({ "q": "1", "source": "fr", "target": "de" }),
            "German (de) is not available as a target language from French (fr)",
        ),
        (json!(["q"]), "Invalid JSON format: it is not an object"),
    ] {
        assert_eq!(
            post_json(&router, "/translate", &body).await.error(400),
            expected
        );
    }
    for (number, expected) in [
        ("-1", "must be >= 0"),
        ("4", "must be <= 3"),
        ("1.5", "is not a number"),
        ("x", "is not a number"),
    ] {
        let form = format!("q=1&source=en&target=de&alternatives={number}");
        let error = post(&router, "/translate", FORM, form).await.error(400);
        assert_eq!(
            error,
            format!("Invalid request: alternatives parameter {expected}")
        );
    }
    for (content_type, body, expected) in [
        (
            "application/json",
            "no JSON",
            "Invalid JSON format: expected ident at line 1 column 2",
        ),
        (
            FORM,
            " {\"q\": \"1\"}",
            "Invalid request: JSON needs the header `Content-Type: application/json`",
        ),
    ] {
        assert_eq!(
            post(&router, "/translate", content_type, body)
                .await
                .error(400),
            expected
        );
    }
    assert_eq!(
        post(&router, "/detect", FORM, "").await.error(400),
        "Invalid request: missing q parameter"
    );
    let disabled = post(&router, "/translate_file", FORM, "").await.error(403);
    assert_eq!(disabled, "Files translation are disabled on this server.");
    post(&router, "/suggest", FORM, "").await.error(403);
    get(&router, "/nothing").await.error(404);
    let wrong = get(&router, "/translate").await;
    wrong.error(405);
    assert_eq!(wrong.headers["allow"], "POST");
}

#[tokio::test]
async fn keys_are_checked() {
    let ask = |router: axum::Router, key: &'static str| async move {
        let body = format!("q=1&source=en&target=de&api_key={key}");
        post(&router, "/translate", FORM, body).await
    };
    let router = |required| {
        let keys = Keys::parse("school\n", required);
        Server::new(vec![model("en", "de")], Limits::default(), keys).router()
    };
    assert_eq!(ask(router(false), "school").await.status, 200);
    assert_eq!(ask(router(false), "").await.status, 200);
    assert_eq!(
        ask(router(false), "other").await.error(403),
        "Invalid API key"
    );
    let missing = ask(router(true), "").await.error(400);
    assert_eq!(
        missing,
        "Please contact the server operator to get an API key"
    );
    let counts = async |required, key: &str| {
        let request =
            axum::http::Request::get("/metrics").header("authorization", format!("Bearer {key}"));
        send(
            &router(required),
            request.body(axum::body::Body::empty()).expect("a request"),
        )
        .await
    };
    assert_eq!(counts(true, "school").await.status, 200);
    let refused = counts(true, "other").await;
    refused.error(401);
    assert_eq!(refused.headers["www-authenticate"], "Bearer");
    get(&router(true), "/metrics").await.error(401);
    assert_eq!(get(&router(false), "/metrics").await.status, 200);
    assert_eq!(
        get(&router(true), "/frontend/settings").await.json()["keyRequired"],
        true
    );
}

#[tokio::test]
async fn the_server_describes_its_languages_and_settings() {
    let models = vec![model("de", "en"), model("en", "fr")];
    let router = Server::new(models, Limits::default(), Keys::default()).router();
    let languages = get(&router, "/languages").await.json();
    assert_eq!(
        languages,
        json!([
            { "code": "de", "name": "German", "targets": ["de", "en", "fr"] },
            { "code": "en", "name": "English", "targets": ["en", "fr"] },
            { "code": "fr", "name": "French", "targets": ["fr"] },
        ])
    );
    assert_eq!(
        get(&router, "/health").await.json(),
        json!({ "status": "ok" })
    );
    let settings = get(&router, "/frontend/settings").await.json();
    assert_eq!(
        (&settings["charLimit"], &settings["apiKeys"]),
        (&json!(10_000), &json!(false))
    );
    assert_eq!(settings["language"]["source"]["code"], "auto");
    // German to French goes over English.
    let expected = runner()
        .best(&runner().best(&["1 2"]).expect("it translates"))
        .expect("it translates")
        .remove(0);
    let answer = post(&router, "/translate", FORM, "q=1+2&source=de&target=fr")
        .await
        .json();
    assert_eq!(answer["translatedText"], expected);
}

#[tokio::test]
async fn the_description_has_every_path_and_its_errors() {
    let router = server().router();
    let spec = get(&router, "/spec").await.json();
    let described = spec["paths"].as_object().expect("paths");
    // `.route("/path", method(`
    let listed = include_str!("../../src/server.rs")
        .lines()
        .filter_map(|line| {
            let (path, rest) = line.trim().strip_prefix(".route(\"")?.split_once("\", ")?;
            Some((path, rest.split_once('(')?.0))
        });
    let mut count = 0;
    for (path, method) in listed {
        count += 1;
        let responses = &described[path][method]["responses"];
        assert!(
            responses["200"].is_object() || responses["403"].is_object(),
            "{method} {path}"
        );
        assert!(responses["405"].is_object(), "{method} {path}");
        let takes_body = described[path][method]["requestBody"].is_object();
        assert_eq!(responses["408"].is_object(), takes_body, "{method} {path}");
    }
    assert_eq!(count, described.len());
}
