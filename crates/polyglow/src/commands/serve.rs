//! `polyglow serve`: translations over HTTP.

use std::future::Future;
use std::net::SocketAddr;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use polyglow_data::config::{DataConfig, Direction};
use polyglow_predict::TaskFacts;
use polyglow_predict::runner::Runner;
use polyglow_serve::{Ended, Keys, Limits, Model, Server};
use polyglow_train::run::{RunDirectory, runner};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::counts;
use super::model::ModelArgs;
use super::uses::{check_config, check_translates};
use crate::failure::{usage, with_hint};

/// The arguments of `polyglow serve`.
#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Runs that translate, one for each pair of languages; `en-de=RUN` names languages that are
    /// not those of its config
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// Address and port to listen at; `0.0.0.0:5000` lets other machines ask
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5000", value_parser = address)]
    listen: SocketAddr,
    /// `best`, `last`, `step-N`, `average`, `ema` or `int8`, of every run
    #[arg(long, value_name = "NAME", default_value = "best")]
    checkpoint: String,
    /// Beam size, 1 for greedy search [default: the config's]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = counts())]
    beam_size: Option<usize>,
    /// Override a key of `[search]` or `train.max_tokens`, as in `search.length_alpha=0.6`; may be
    /// repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Device to run on, as `polyglow devices` lists it [default: the config's]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Characters of a text, at most; 0 for any number
    #[arg(long, value_name = "N", default_value = "10000")]
    char_limit: usize,
    /// Texts of a request, at most; 0 for any number
    #[arg(long, value_name = "N", default_value = "200")]
    batch_limit: usize,
    /// Bytes of a request, at most
    #[arg(long, value_name = "N", default_value = "1048576")]
    max_body: usize,
    /// Seconds that a request may take to arrive, its answer to be found, and its client to take
    /// more of it
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = counts())]
    timeout: usize,
    /// Other translations of a text, besides the best, at most
    #[arg(long, value_name = "N", default_value = "3")]
    alternatives_limit: usize,
    /// Requests that are in work or wait at a time; more are turned away with status 503
    #[arg(long, value_name = "N", default_value = "256", value_parser = counts())]
    queue: usize,
    /// File with keys with which one may ask, one a line
    #[arg(long, value_name = "FILE")]
    api_keys: Option<PathBuf>,
    /// Nobody may ask without a key
    #[arg(long, requires = "api_keys")]
    require_api_key: bool,
}

/// Serves until Ctrl-C or SIGTERM, and then answers the requests that have come. SIGHUP loads the
/// models again.
///
/// # Errors
/// There is no such run, checkpoint or device, or two runs are for the same languages (exit code
/// 2); the address is not available; the models fail while they serve.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<()> {
    // Requests are small work; the cores are for the models.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let signals = Signals::install(&runtime)?;
    let models = models(args)?;
    let pairs: Vec<String> = models
        .iter()
        .map(|model| format!("{}-{}", model.source, model.target))
        .collect();
    let server = Server::new(models, limits(args), keys(args)?);
    keep_texts_from_the_log();
    signals.loading.store(false, Ordering::SeqCst);
    let ended = runtime.block_on(async {
        let listener = TcpListener::bind(args.listen)
            .await
            .with_context(|| format!("cannot listen at {}", args.listen));
        let listener = listener
            .map_err(|error| with_hint(error, "`--listen 127.0.0.1:5001` takes another port"))?;
        let address = listener.local_addr()?;
        tracing::info!("{} at http://{address}; Ctrl-C ends", pairs.join(", "));
        #[cfg(unix)]
        tokio::spawn(reload_on_hang_up(server.clone(), signals.hang_up));
        anyhow::Ok(server.serve(listener, signals.stop).await)
    })?;
    match ended {
        Ended::Stopped => {
            tracing::info!("stopped; all requests are answered");
            Ok(())
        }
        Ended::CutOff => {
            tracing::warn!("stopped; some clients did not take their answers, and were cut off");
            Ok(())
        }
        Ended::Failed => Err(anyhow!(
            "the models have failed, see above; the server ends"
        )),
    }
}

/// Reads an address with a port. Its only name is `localhost`, because others need a name server.
fn address(text: &str) -> Result<SocketAddr, String> {
    let numbers = text
        .strip_prefix("localhost:")
        .map(|port| format!("127.0.0.1:{port}"));
    let address = numbers.as_deref().unwrap_or(text).parse();
    address.map_err(|_| "write it in numbers, with a port, as in `127.0.0.1:5001`".to_owned())
}

fn limits(args: &ServeArgs) -> Limits {
    Limits {
        characters: unless_zero(args.char_limit),
        texts: unless_zero(args.batch_limit),
        body: args.max_body,
        time: Duration::from_secs(args.timeout as u64),
        alternatives: args.alternatives_limit,
        queue: args.queue,
        // More than requests, so that a client that is turned away gets an answer that says so.
        connections: args
            .queue
            .saturating_mul(2)
            .max(Limits::default().connections),
    }
}

/// A limit of the command line, where 0 is none.
fn unless_zero(limit: usize) -> Option<usize> {
    (limit > 0).then_some(limit)
}

fn keys(args: &ServeArgs) -> anyhow::Result<Keys> {
    let Some(path) = &args.api_keys else {
        return Ok(Keys::default());
    };
    let keys = Keys::parse(&fs_err::read_to_string(path)?, args.require_api_key);
    if keys.is_empty() {
        return Err(usage(anyhow!("`{}` has no key", path.display())));
    }
    Ok(keys)
}

/// The model of each run, with the languages that it is for.
fn models(args: &ServeArgs) -> anyhow::Result<Vec<Model>> {
    let mut models: Vec<Model> = Vec::new();
    for text in &args.runs {
        let (pair, path) = match text.split_once('=') {
            Some((pair, path)) if !PathBuf::from(text).exists() => {
                (Some(pair), PathBuf::from(path))
            }
            _ => (None, PathBuf::from(text)),
        };
        let directions = match pair {
            Some(pair) => vec![direction_of(pair, &path, &args.overrides)?],
            None => directions_of_run(&path, &args.overrides)?,
        };
        let mut model = ModelArgs::of_run(&path, &args.checkpoint, args.device.clone());
        model.beam_size = args.beam_size;
        model.overrides.clone_from(&args.overrides);
        // The languages of a run share its weights.
        let runner = load(&model)?;
        for Direction { src, tgt, tags } in directions {
            check_different(&models, &src, &tgt)?;
            let model = model.clone();
            models.push(Model {
                source: src,
                target: tgt,
                runner: runner.clone().with_tags(tags.clone())?,
                reload: Box::new(move || Ok(load(&model)?.with_tags(tags.clone())?)),
            });
        }
    }
    Ok(models)
}

/// Checks that no model translates between these languages yet.
///
/// # Errors
/// One does (exit code 2).
fn check_different(models: &[Model], src: &str, tgt: &str) -> anyhow::Result<()> {
    let is_same = |other: &Model| other.source == src && other.target == tgt;
    if !models.iter().any(is_same) {
        return Ok(());
    }
    let error = usage(anyhow!("two runs translate from `{src}` to `{tgt}`"));
    Err(with_hint(
        error,
        "for an ensemble, average their checkpoints; other languages are named as in `en-de=RUN`",
    ))
}

/// The languages of a pair such as `en-de`: those of the run that have these names, or other names of
/// the only ones that it has.
///
/// # Errors
/// The run has several pairs of languages, and none of these names (exit code 2).
fn direction_of(pair: &str, path: &Path, overrides: &[String]) -> anyhow::Result<Direction> {
    let (src, tgt) = languages_of(pair)?;
    let config = RunDirectory::existing(path)?.config_with(overrides)?;
    let directions = served(&config.data);
    let is_same = |known: &&Direction| known.src == src && known.tgt == tgt;
    if let Some(known) = directions.iter().find(is_same) {
        return Ok(known.clone());
    }
    if directions.len() > 1 {
        let run = path.display();
        let error = usage(anyhow!(
            "`{run}` was not trained to translate from `{src}` to `{tgt}`"
        ));
        return Err(with_hint(
            error,
            "without a name in front it serves all languages that it knows",
        ));
    }
    Ok(Direction {
        src,
        tgt,
        tags: config.data.tags(),
    })
}

/// The pairs of languages of a config, each once: of several kinds of one language, such as a formal
/// one, the first.
fn served(data: &DataConfig) -> Vec<Direction> {
    let mut directions: Vec<Direction> = Vec::new();
    for direction in data.directions() {
        let is_same = |other: &Direction| other.src == direction.src && other.tgt == direction.tgt;
        if !directions.iter().any(is_same) {
            directions.push(direction);
        }
    }
    directions
}

/// The pairs of languages that a run was trained for.
///
/// # Errors
/// It does not translate, or names none.
fn directions_of_run(path: &Path, overrides: &[String]) -> anyhow::Result<Vec<Direction>> {
    let config = RunDirectory::existing(path)?.config_with(overrides)?;
    check_config(path, &config, TaskFacts::translates)?;
    let directions = served(&config.data);
    if directions.is_empty() {
        let run = path.display();
        let error = usage(anyhow!(
            "the config of `{run}` does not say from which language to which it translates"
        ));
        let hint = format!(
            "name them before the run, as in `polyglow serve en-de={run}` for English to German"
        );
        return Err(with_hint(error, hint));
    }
    Ok(directions)
}

/// `en` and `de` of `en-de`; of more than one hyphen, as in `pt-BR-en`, the parts are not clear and
/// `:` divides them.
fn languages_of(pair: &str) -> anyhow::Result<(String, String)> {
    let parts: Vec<&str> = if pair.contains(':') {
        pair.split(':').collect()
    } else {
        pair.split('-').collect()
    };
    match parts[..] {
        [source, target] if !source.is_empty() && !target.is_empty() => {
            Ok((source.to_owned(), target.to_owned()))
        }
        _ => {
            let error = usage(anyhow!("`{pair}` is no pair of languages"));
            Err(with_hint(
                error,
                "write it as in `en-de=RUN` or `zh-Hans:en=RUN`",
            ))
        }
    }
}

fn load(args: &ModelArgs) -> anyhow::Result<Runner> {
    let plan = args.open()?;
    let models = args.load(&plan)?;
    check_translates(&models)?;
    Ok(runner(models, &plan)?)
}

/// The signals of a server.
struct Signals<S> {
    /// While it is set, Ctrl-C and SIGTERM end the process: no client has sent a request yet.
    loading: Arc<AtomicBool>,
    /// Returns at the first Ctrl-C or SIGTERM.
    stop: S,
    #[cfg(unix)]
    hang_up: Signal,
}

impl Signals<()> {
    /// Handles signals from now on, before the models are loaded, so that SIGHUP does not end a
    /// process that loads them.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    fn install(runtime: &Runtime) -> anyhow::Result<Signals<impl Future<Output = ()>>> {
        let _inside = runtime.enter();
        let loading = Arc::new(AtomicBool::new(true));
        for number in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(number, 0, Arc::clone(&loading))
                .context("cannot handle signals")?;
        }
        #[cfg(unix)]
        return Ok(Signals {
            loading,
            stop: first(
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
            ),
            hang_up: signal(SignalKind::hangup())?,
        });
        #[cfg(not(unix))]
        Ok(Signals {
            loading,
            stop: interrupted(),
        })
    }
}

#[cfg(unix)]
async fn first(mut interrupt: Signal, mut terminate: Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn interrupted() {
    // Without a handler the first signal ends the process, which is the next best.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Loads the models again at every SIGHUP.
#[cfg(unix)]
async fn reload_on_hang_up(server: Server, mut hang_up: Signal) {
    while hang_up.recv().await.is_some() {
        server.reload().await;
    }
}

/// Logs panics from now on by their position in the source alone: a panic's message may have a part
/// of a client's text in it.
fn keep_texts_from_the_log() {
    panic::set_hook(Box::new(|info| {
        if !polyglow_data::tokenizer::is_guarded() {
            let position = info.location().map(ToString::to_string);
            tracing::error!(
                "a panic at {}",
                position.as_deref().unwrap_or("an unknown place")
            );
        }
    }));
}
