//! A web page that translates in the browser: the model and the package polyglow-web in one folder,
//! which any file server can serve.

use std::path::Path;
use std::{fs, io};

use burn::tensor::{Device, TensorData};
use polyglow_data::pair_tags::PairTags;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::registry::Named;
use polyglow_model::{Arch, Transformer};
use polyglow_predict::error::{Context, Result, TrainError, failed, usage, with_hint};
use polyglow_predict::model::load_for_search;
use polyglow_predict::runner::Runner;
use polyglow_predict::tasks::{TaskFacts, facts};
use polyglow_predict::weights::{self, Weights};
use polyglow_train::Plan;
use polyglow_train::run::sha256;
use serde_json::{Value, json};

use super::format::{Format, Writing};
use super::portable::Portable;
use super::{Precision, folder};

const CONFIG: &str = "config.toml";
const WEIGHTS: &str = "model.safetensors";
/// The file that the page reads first: it has the languages, and the names of the other files.
const MODEL: &str = "model.json";
/// The script that keeps the files in a browser. It is a template, into which their names are
/// written.
const SERVICE_WORKER: &str = "service-worker.js";
/// The files of the package that a page needs.
const PACKAGE: [&str; 11] = [
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "index.html",
    "index.js",
    "index.d.ts",
    "local.js",
    "package.json",
    "polyglow_web.js",
    "polyglow_web_bg.wasm",
    "worker.js",
    SERVICE_WORKER,
];
/// The largest file of the package that is read.
const MOST_PACKAGE: u64 = 1 << 28;

/// The format `web`.
#[derive(Debug)]
pub(crate) struct Web;

impl Named for Web {
    fn name(&self) -> &'static str {
        "web"
    }
}

impl Format for Web {
    fn title(&self) -> &'static str {
        "a page"
    }

    fn library(&self) -> &'static str {
        "polyglow"
    }

    fn tag_usage(&self, _: &PairTags) -> Option<String> {
        Some("The page puts tags before texts by itself.".to_owned())
    }

    fn usage(&self, _: &TaskFacts, _: bool) -> &'static str {
        include_str!("usage/web.md")
    }

    fn default_precision(&self, arch: Arch, _: bool) -> Precision {
        // Users wait until the page has downloaded its model. The browser computes with 8 bits in
        // Transformers only.
        if arch == Transformer::ARCH {
            Precision::Int8
        } else {
            Precision::Float32
        }
    }

    fn check(&self, model: &Portable) -> Result<()> {
        check_arch(model.config.model.arch)
    }

    fn check_writing(&self, writing: &Writing) -> Result<()> {
        check(writing.model, writing.precision, writing.package)
    }

    fn write(&self, writing: &Writing, dir: &Path) -> Result<()> {
        let Writing {
            model, precision, ..
        } = *writing;
        let package = writing.package.unwrap_or(Path::new(""));
        folder::write_file(dir, CONFIG, model.config.to_toml()?.as_bytes())?;
        model.tokenizers.save(dir)?;
        let bytes = weights::to_bytes(&tensors(model, precision)?)?;
        folder::write_file(dir, WEIGHTS, &bytes)?;
        folder::write_json(dir, MODEL, &description(model, bytes.len())?)?;
        for name in PACKAGE.iter().filter(|name| **name != SERVICE_WORKER) {
            folder::write_file(dir, name, &folder::read(&package.join(name), MOST_PACKAGE)?)?;
        }
        let template = folder::read(&package.join(SERVICE_WORKER), MOST_PACKAGE)?;
        let template = String::from_utf8(template).context("the package's service worker")?;
        // Last, because it lists all other files.
        let service_worker = service_worker(&template, dir)?;
        folder::write_file(dir, SERVICE_WORKER, service_worker.as_bytes())
    }

    fn runners(&self, writing: &Writing, plan: &Plan, dir: &Path) -> Result<Option<[Runner; 2]>> {
        let Writing {
            model, precision, ..
        } = *writing;
        let device: &Device = &plan.device;
        let text = fs::read_to_string(dir.join(CONFIG))
            .with_context(|| format!("cannot read `{}`", dir.display()))?;
        let tokenizers = Tokenizers::load(dir)?;
        let bytes = folder::read(&dir.join(WEIGHTS), u64::MAX - 1)?;
        let written = Runner::from_bytes(&text, &tokenizers, &bytes, device.clone())?;
        let shape = plan.model_shape(&model.tokenizers)?;
        let tensors = tensors(model, precision)?;
        let weights = Weights::new(Path::new(WEIGHTS), tensors.into_iter().collect())?;
        let own = load_for_search(&shape, weights, device)?;
        let longest = shape.vocabulary().max_len - 1;
        let options = plan.runner_options(plan.config.search.clone(), longest);
        let own = Runner::new(own, &model.tokenizers, options);
        Ok(Some([written, own]))
    }
}

/// Checks that the program of a page has an architecture.
///
/// # Errors
/// Another program has registered it (exit code 2).
fn check_arch(arch: Arch) -> Result<()> {
    if arch.0.is_built_in() {
        return Ok(());
    }
    let error = failed!(
        "no page can translate with a model of `model.arch = \"{}\"`",
        arch.name()
    );
    let hint = "the page's program knows the built-in architectures alone";
    Err(with_hint(usage(error), hint))
}

/// Checks that a page can translate with a model, and that the package is complete.
///
/// # Errors
/// The model does not translate text, or the page cannot compute in this data type, or a file of
/// the package is missing (exit code 2).
fn check(model: &Portable, precision: Precision, package: Option<&Path>) -> Result<()> {
    let config = &model.config.model;
    if !facts(config.task()).translates() {
        return Err(usage(TrainError::new(
            "only models that translate text are written for a page",
        )));
    }
    check_arch(config.arch)?;
    if precision == Precision::Float16 || precision == Precision::Int8 && !config.has_int8() {
        let error = failed!(
            "`--precision {}`: no page computes so with this model",
            precision.name()
        );
        return Err(with_hint(
            usage(error),
            "`float32` always works; Transformers may have `int8`",
        ));
    }
    let hint = "releases have it beside the program; `scripts/web.sh` builds it, and `--package DIR` says where it is";
    let Some(package) = package else {
        return Err(with_hint(
            usage(TrainError::new("there is no package polyglow-web at hand")),
            hint,
        ));
    };
    match PACKAGE.iter().find(|name| !package.join(name).is_file()) {
        Some(missing) => {
            let error = failed!(
                "`{}` is not the package polyglow-web: it has no `{missing}`",
                package.display()
            );
            Err(with_hint(usage(error), hint))
        }
        None => Ok(()),
    }
}

/// The content of [`MODEL`]; `num_bytes` is the size of the weights, for the page's progress bar.
fn description(model: &Portable, num_bytes: usize) -> Result<Value> {
    let (source, target) = model.config.data.languages()?;
    let shared = model.tokenizers.is_shared();
    Ok(json!({
        "source": source,
        "target": target,
        // As in a server's answer to `/languages`.
        "languages": [language(source, &[source, target]), language(target, &[target])],
        "config": CONFIG,
        "tokenizer": if shared { "tokenizer.json" } else { "tokenizer.src.json" },
        "targetTokenizer": if shared { None } else { Some("tokenizer.tgt.json") },
        "weights": WEIGHTS,
        "bytes": num_bytes,
    }))
}

fn language(code: &str, targets: &[&str]) -> Value {
    json!({ "code": code, "name": code, "targets": targets })
}

/// The service worker for the files in a folder. Its version is a hash of their content, so that
/// browsers fetch them anew when one has changed.
fn service_worker(template: &str, dir: &Path) -> Result<String> {
    let mut names = file_names(dir).with_context(|| format!("cannot read `{}`", dir.display()))?;
    names.retain(|name| is_served(name));
    names.sort();
    let mut hashes = String::new();
    for name in &names {
        hashes += &sha256(&folder::read(&dir.join(name), u64::MAX - 1)?);
    }
    // Browsers request the page by the name of its folder.
    names.push("./".to_owned());
    let version = &sha256(hashes.as_bytes())[..16];
    Ok(template
        .replace("@VERSION@", version)
        .replace("@FILES@", &serde_json::to_string(&names)?))
}

fn file_names(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

/// Whether a page fetches a file; the others are for people and for bundlers.
fn is_served(name: &str) -> bool {
    let is_for_people = name == "README.md" || name.starts_with("LICENSE");
    let is_for_bundlers = name == "package.json" || name.ends_with(".d.ts");
    !is_for_people && !is_for_bundlers
}

/// The weights in a data type.
fn tensors(model: &Portable, precision: Precision) -> Result<Vec<(String, TensorData)>> {
    let tensors = model.arrays.clone().into_tensors();
    if precision != Precision::Int8 {
        return Ok(tensors);
    }
    let weights = Weights::new(Path::new(WEIGHTS), tensors.into_iter().collect())?;
    weights::quantize(&weights)
}
