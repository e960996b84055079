//! Checks of the `[data]` table: ranges of numbers, and keys that exclude or require each other.

use std::path::Path;

use super::{Content, DataConfig, GOLD, ImageConfig, LEARNED, TrainFiles, WeightedPath, wrong};
use crate::corpus::is_tsv;
use crate::error::DataError;
use crate::skip_gram::SkipGrams;
use crate::tokenizer::own_token_problem;
use crate::toy::{Embedded, Toy};

/// Largest `data.max_len` and `data.context_len`: the id cache has two bytes for a length.
const MAX_LEN: usize = u16::MAX as usize;
/// Largest `data.words.window` and `data.words.negatives`.
const MOST_NEIGHBORS: usize = 1000;

impl DataConfig {
    /// Checks what the types cannot, for a corpus of this content: which keys go together, and the
    /// ranges of numbers. Opens no file.
    ///
    /// # Errors
    /// [`DataError::Config`] names the first key that does not fit.
    pub fn validate(&self, content: Content) -> Result<(), DataError> {
        match &self.corpus {
            Some(name) => self.validate_embedded(name, content)?,
            None => self.validate_files(content)?,
        }
        self.validate_reading(content)
    }

    /// Checks as [`Self::validate`] does, but without the keys that name the data: for data that is
    /// in no file.
    ///
    /// # Errors
    /// As [`Self::validate`].
    pub fn validate_reading(&self, content: Content) -> Result<(), DataError> {
        if !content.is_parallel() && self.is_aligned() {
            return Err(wrong(
                "data.alignments",
                "needs parallel text, and this model reads text of one side".to_owned(),
            ));
        }
        self.validate_clean(content)?;
        self.validate_reverse(content)?;
        self.validate_tags(content)?;
        self.validate_noise(content)?;
        if self.max_examples == Some(0) {
            return Err(wrong("data.max_examples", "must be at least 1".to_owned()));
        }
        self.validate_image_keys(content)?;
        // A window of one position would predict each id from begin of sentence or one id alone.
        if let Some(len) = self.context_len
            && !(2..=MAX_LEN).contains(&len.get())
        {
            return Err(wrong(
                "data.context_len",
                format!("must lie in 2..={MAX_LEN}, not {len}"),
            ));
        }
        validate_skip_grams(self.words())?;
        if !(1..=MAX_LEN).contains(&self.max_len) {
            return Err(wrong(
                "data.max_len",
                format!("must lie in 1..={MAX_LEN}, not {}", self.max_len),
            ));
        }
        if self.max_length_ratio.is_nan() || self.max_length_ratio < 1.0 {
            return Err(wrong(
                "data.max_length_ratio",
                format!("must be at least 1, not {}", self.max_length_ratio),
            ));
        }
        Ok(())
    }

    /// Checks what text can be cleaned.
    fn validate_clean(&self, content: Content) -> Result<(), DataError> {
        let Some(settings) = &self.clean else {
            return Ok(());
        };
        if settings.scores.is_some() != settings.keep.is_some() {
            let problem = "`scores` and `keep` go together: a score for each line, and the share of the pairs \
                           to keep";
            return Err(wrong("data.clean", problem.to_owned()));
        }
        if let Some(keep) = settings.keep.filter(|keep| !(*keep > 0.0 && *keep <= 1.0)) {
            let problem = format!("must be more than 0 and at most 1, not {keep}");
            return Err(wrong("data.clean.keep", problem));
        }
        if content != Content::PAIRS {
            let problem = "needs parallel text, and this model reads other text; set it to false";
            return Err(wrong("data.clean", problem.to_owned()));
        }
        let mut entries = self.entries().iter();
        if entries.any(|entry| entry.src.is_some() || entry.tgt.is_some()) {
            let problem = "learns one language of each side, and corpora of `data.train` have others: clean \
                           them beforehand, each pair of languages by itself";
            return Err(wrong("data.clean", problem.to_owned()));
        }
        if self.is_aligned() && !self.learns_alignments() {
            let problem = format!(
                "leaves out pairs, of which the alignments have lines: take \"{LEARNED}\" for these, or \
                 clean and align the text beforehand"
            );
            return Err(wrong("data.clean", problem));
        }
        Ok(())
    }

    /// Checks what text can be read in reverse.
    fn validate_reverse(&self, content: Content) -> Result<(), DataError> {
        if self.reverse && content != Content::PAIRS {
            let problem = "needs parallel text, and this model reads other text; set it to false";
            return Err(wrong("data.reverse", problem.to_owned()));
        }
        if self.reverse && self.is_aligned() && !self.learns_alignments() {
            let problem = format!(
                "exchanges the sides of the text, and the alignments have an order: take \"{LEARNED}\" for \
                 these"
            );
            return Err(wrong("data.reverse", problem));
        }
        Ok(())
    }

    /// Checks the tags of the run, and those of the corpora that it is trained on.
    fn validate_tags(&self, content: Content) -> Result<(), DataError> {
        let entries = self.entries();
        let src_tags = entries.iter().map(|entry| &entry.src_tag).collect();
        validate_side_tags("data.src_tag", self.src_tag.as_ref(), src_tags, content)?;
        let tgt_tags = entries.iter().map(|entry| &entry.tgt_tag).collect();
        validate_side_tags("data.tgt_tag", self.tgt_tag.as_ref(), tgt_tags, content)?;
        for tag in entries.iter().filter_map(|entry| entry.tag.as_ref()) {
            check_tag("data.train", tag, content)?;
        }
        Ok(())
    }

    /// Checks the noise of the run, and that of the corpora that it is trained on.
    fn validate_noise(&self, content: Content) -> Result<(), DataError> {
        let in_entries = self.entries().iter().filter_map(|entry| entry.noise);
        for noise in self.noise.into_iter().chain(in_entries) {
            if content != Content::PAIRS {
                let problem = "is for parallel text, and this model reads other text";
                return Err(wrong("[data.noise]", problem.to_owned()));
            }
            for (key, probability) in noise.probabilities() {
                if !(0.0..=1.0).contains(&probability) {
                    let problem = format!("`{key}` must lie in [0, 1], not {probability}");
                    return Err(wrong("[data.noise]", problem));
                }
            }
        }
        Ok(())
    }

    /// Checks the keys that are for images alone.
    fn validate_image_keys(&self, content: Content) -> Result<(), DataError> {
        if content.has_images() {
            validate_images(self.images(), self.corpus.is_some())?;
        } else if self.images.is_some() {
            return Err(wrong(
                "[data.images]",
                "is for images, and this model reads text".to_owned(),
            ));
        }
        if content == Content::CAPTIONS && self.images().augment {
            let problem = "would turn what is left to the right, and the captions would be wrong; set it to false";
            return Err(wrong("data.images.augment", problem.to_owned()));
        }
        if self.image_folder.is_some() && (content != Content::CAPTIONS || self.corpus.is_some()) {
            return Err(wrong(
                "data.image_folder",
                "belongs to images with captions from files".to_owned(),
            ));
        }
        Ok(())
    }

    /// Checks the keys that name the data, where they name an embedded corpus.
    fn validate_embedded(&self, name: &str, content: Content) -> Result<(), DataError> {
        let Some(embedded) = Embedded::from_name(name) else {
            let known = names_of_embedded(content);
            return Err(wrong(
                "data.corpus",
                format!("must be one of {known}, not \"{name}\""),
            ));
        };
        if !embedded.can_be(content) {
            let contents = embedded.contents();
            let known = names_of_embedded(content);
            return Err(wrong(
                "data.corpus",
                format!("is \"{name}\", which has {contents}; this model reads one of {known}"),
            ));
        }
        let (src, tgt) = self.toy().map(Toy::languages).unzip();
        validate_language("data.src", self.src.as_deref(), src, name)?;
        validate_language("data.tgt", self.tgt.as_deref(), tgt, name)?;
        if self.train.is_some() || self.valid.is_some() || self.test.is_some() {
            return Err(wrong(
                "data.corpus",
                "replaces `data.train`, `data.valid` and `data.test`".to_owned(),
            ));
        }
        if self
            .alignments
            .as_deref()
            .is_some_and(|path| path != Path::new(GOLD) && path != Path::new(LEARNED))
        {
            return Err(wrong(
                "data.alignments",
                format!(
                    "must be \"{GOLD}\" or \"{LEARNED}\" for an embedded corpus, or be left out"
                ),
            ));
        }
        Ok(())
    }

    /// Checks the keys that name the data, where they name files.
    fn validate_files(&self, content: Content) -> Result<(), DataError> {
        let missing = "is missing: name the training text, or an embedded corpus in `data.corpus`";
        let train = self
            .train
            .as_ref()
            .ok_or_else(|| wrong("data.train", missing.to_owned()))?;
        // Only parallel text needs the names of both languages, which find its files.
        if !content.is_parallel() {
            let mut entries = self.entries().iter();
            let has_more = |entry: &WeightedPath| {
                let has_languages = entry.src.is_some() || entry.tgt.is_some();
                has_languages || entry.from > 0 || entry.until.is_some()
            };
            if entries.any(has_more) {
                let problem =
                    "gives languages or steps to a corpus, and only parallel text has them";
                return Err(wrong("data.train", problem.to_owned()));
            }
            return self.validate_list(train);
        }
        let languages = self.written_languages()?;
        let of_corpora: Vec<(&Path, [&str; 2])> = match train {
            TrainFiles::One(path) => vec![(path, languages)],
            TrainFiles::Weighted(list) => list
                .iter()
                .map(|entry| (&*entry.path, entry.languages(languages)))
                .collect(),
        };
        for (path, [src, tgt]) in of_corpora {
            // In a TSV file the sides are columns, and their languages may have the same name.
            if src == tgt && !is_tsv(path) {
                return Err(wrong(
                    "data.tgt",
                    format!("is \"{tgt}\", as `data.src` is: both sides would be the same file"),
                ));
            }
        }
        self.validate_list(train)
    }

    /// Checks a list of training corpora.
    fn validate_list(&self, train: &TrainFiles) -> Result<(), DataError> {
        let TrainFiles::Weighted(list) = train else {
            return Ok(());
        };
        if list.is_empty() {
            return Err(wrong("data.train", "is an empty list".to_owned()));
        }
        if self.alignments.is_some() {
            let problem = "must be given in each entry of `data.train`";
            return Err(wrong("data.alignments", problem.to_owned()));
        }
        for entry in list {
            let weight = entry.weight;
            // Written so that NaN is refused, too.
            if !(weight > 0.0 && weight <= 1000.0) {
                let path = entry.path.display();
                return Err(wrong(
                    "data.train",
                    format!("gives `{path}` the weight {weight}; it must lie in (0, 1000]"),
                ));
            }
        }
        validate_steps(list)
    }
}

/// Checks that there is a corpus to train on in every step.
fn validate_steps(list: &[WeightedPath]) -> Result<(), DataError> {
    let end = |entry: &WeightedPath| entry.until.unwrap_or(u64::MAX);
    if let Some(entry) = list.iter().find(|entry| entry.from >= end(entry)) {
        let path = entry.path.display();
        let problem = format!("trains on `{path}` in no step: `from` must be less than `until`");
        return Err(wrong("data.train", problem));
    }
    // Only where a corpus leaves can there be none.
    let begins = list.iter().map(end).filter(|end| *end < u64::MAX);
    for step in std::iter::once(0).chain(begins) {
        let is_trained_on = |entry: &WeightedPath| (entry.from..end(entry)).contains(&step);
        if !list.iter().any(is_trained_on) {
            let problem = format!("has no corpus to train on after {step} steps");
            return Err(wrong("data.train", problem));
        }
    }
    Ok(())
}

/// Checks the tag of a side, and those that the corpora of `data.train` have in its place.
fn validate_side_tags(
    key: &'static str,
    own: Option<&String>,
    in_entries: Vec<&Option<String>>,
    content: Content,
) -> Result<(), DataError> {
    let num_entries = in_entries.len();
    let others: Vec<&String> = in_entries.into_iter().flatten().collect();
    for tag in own.into_iter().chain(others.iter().copied()) {
        check_tag(key, tag, content)?;
    }
    let Some(own) = own else {
        if others.is_empty() {
            return Ok(());
        }
        let problem = "is missing, and corpora of `data.train` have tags: name the one that \
                       validation text and `translate` are to have";
        return Err(wrong(key, problem.to_owned()));
    };
    if num_entries > 0 && others.len() == num_entries && !others.contains(&own) {
        let problem = format!("is \"{own}\", which no corpus of `data.train` has");
        return Err(wrong(key, problem));
    }
    Ok(())
}

/// Checks the spelling of a tag, and that the text is one that has tags.
fn check_tag(key: &'static str, tag: &str, content: Content) -> Result<(), DataError> {
    if content != Content::PAIRS {
        let problem = format!("has the tag `{tag}`, and only parallel text has tags");
        return Err(wrong(key, problem));
    }
    match own_token_problem(tag) {
        Some(problem) => Err(wrong(key, problem)),
        None => Ok(()),
    }
}

/// The names of all embedded corpora that can be read as this content, for messages.
fn names_of_embedded(content: Content) -> String {
    let names: Vec<String> = Embedded::all()
        .filter(|corpus| corpus.can_be(content))
        .map(|corpus| format!("\"{}\"", corpus.name()))
        .collect();
    names.join(", ")
}

/// Refuses a language other than that of the embedded corpus `name`, if it has one.
fn validate_language(
    key: &'static str,
    configured: Option<&str>,
    own: Option<&str>,
    name: &str,
) -> Result<(), DataError> {
    if configured.is_none() || configured == own {
        return Ok(());
    }
    Err(wrong(
        key,
        match own {
            Some(own) => format!("must be \"{own}\" for the corpus \"{name}\", or be left out"),
            None => "must be left out".to_owned(),
        },
    ))
}

/// Checks the table `[data.images]`.
fn validate_images(config: ImageConfig, embedded: bool) -> Result<(), DataError> {
    let [height, width, channels] = config.shape();
    let bytes = height.saturating_mul(width).saturating_mul(channels);
    if !(1..=usize::from(u16::MAX)).contains(&bytes) {
        let problem = format!(
            "must give images of 1 to {} bytes, not {height} x {width} pixels of {channels}",
            u16::MAX
        );
        return Err(wrong("data.images.size", problem));
    }
    // The generated pictures are in color, and are never converted.
    if config.grayscale && embedded {
        return Err(wrong(
            "data.images.grayscale",
            "belongs to images from files".to_owned(),
        ));
    }
    Ok(())
}

/// Checks the table `[data.words]`.
fn validate_skip_grams(config: SkipGrams) -> Result<(), DataError> {
    for (key, value) in [
        ("data.words.window", config.window),
        ("data.words.negatives", config.negatives),
    ] {
        if !(1..=MOST_NEIGHBORS).contains(&value) {
            return Err(wrong(
                key,
                format!("must lie in 1..={MOST_NEIGHBORS}, not {value}"),
            ));
        }
    }
    if (0.0..=1.0).contains(&config.subsample) {
        return Ok(());
    }
    Err(wrong(
        "data.words.subsample",
        format!("must be a share from 0 to 1, not {}", config.subsample),
    ))
}
