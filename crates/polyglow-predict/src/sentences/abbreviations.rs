//! Abbreviations that the library of sentences lacks.

/// Abbreviations by language, in lower case and without their last full stop. None is a word that
/// often ends a sentence.
const BY_LANGUAGE: [(&str, &str); 14] = [
    (
        "de",
        "abb abs abt allg amtl anm apr aufl aug bes betr bsp bspw dez dipl dt ebd ehem eigtl einschl engl evtl exkl fa \
         fam feb franz frl frz geb gebr gegr gem ggf ggfs ggü griech hl hr hrsg ing inh inkl insb insg ital jan jh jhd kap \
         lat lfd mag max mind min mio mrd mrz msgr mwst nördl nov nr nrn okt österr östl pfr pkt prof proz resp röm russ \
         sept sog st std stellv str südl svw tel tgl tsd verh vgl vorm westl wg zit zz zzgl",
    ),
    (
        "en",
        "approx assn blvd bros capt cf dept est gov lieut messrs mgr prof pvt rep sen sgt supt univ viz",
    ),
    (
        "es",
        "av avda aprox cía cia dcha dr dra dres excmo excma gral ing izq lic ltda núm núms pág págs prof profa sra sres \
            srta sta sto tel ud uds vd vds",
    ),
    (
        "fr",
        "av avr bd boul chap cie dép déc dr env févr fig gén janv juil mgr mlle mlles mm mme mmes nov oct pr prof réf \
            sept st ste sté tél vol",
    ),
    (
        "it",
        "arch avv ca capp dott dr ecc fig geom ill ing mons on pag pagg prof rag rev sen sig sigg sec segr spett tel",
    ),
    (
        "pt",
        "aprox av cia dr dra eng exma exmo gen ilmo ltda pág págs prof profa sr sra srta séc tel",
    ),
    (
        "nl",
        "blz bijv ca dhr drs dr incl excl ing ir jl max mevr min mld mln mw nr prof resp",
    ),
    (
        "pl",
        "abp al bp gen godz gm hab im inż kpt ks mgr mjr mld mln np ok os pl płk por pow ppłk proc prof red rozdz rys \
            św tab tel tj tłum tys tzn tzw ul wg woj wyd zob",
    ),
    (
        "cs",
        "č čl čp doc ing judr kol max mgr mil min mld mudr např nám obr odst parag phdr prof rndr str sv tel tis tj tzn \
            tzv ul",
    ),
    (
        "sk",
        "č čl doc ing judr max mgr mil min mld mudr napr nám obr ods phdr prof rndr sv tel tis tzn tzv ul",
    ),
    (
        "ru",
        "акад англ гл г-жа г-н гр д-р доц им илл лат млн млрд напр нем обл пер пл пос просп проф рис руб см ср стр табл \
            тел тыс ул",
    ),
    (
        "uk",
        "акад англ вул гл д-р доц ім лат млн млрд напр обл пл просп проф рис див стор табл тел тис",
    ),
    ("sv", "bl ca civ dr ev fr kap kl kr nr prof resp st tel"),
    (
        "da",
        "ca dr evt fr hr jf kap kl kr mio mia nr pkt prof stk tlf vedr",
    ),
];

/// Abbreviations of all languages before a number, without which they may be words that end a
/// sentence.
const BEFORE_NUMBERS: &str = "abb abs anm ap approx aprox art arts bd bde blz ca cap caps cca ch chap chs circa č čl env est \
     eq eqs f ff fig figs godz kap kl l ll lfg n nn no nos nr nrn num núm núms nº obr ok op p par parag poz pp pag pagg pág \
     págs pkt rozdz rys s sec sect secs st stor str t tab tbl tel tél tlf tom tz ust v vol vols vv vs ziff гл кн п пп рис с \
     ст стор стр т табл тел ч";

/// German words that often begin sentences and seldom follow an ordinal.
const GERMAN_STARTERS: &str = "aber alle alles als also am an auch auf aus bei bis bitte da damit danach dann das dass dazu \
     dem den denn der des deshalb die dies diese dieser dieses doch dort du ein eine einer eines einige er es für heute \
     hier ich ihr ihre im in ist ja jede jeder jedes jetzt kein keine man mehr mein mit morgen nach nein nicht noch nun nur \
     ob obwohl oder schließlich sehr sein seine seit sie sind so später trotzdem um und uns unser vielleicht viele vom von vor \
     war wann waren warum was weil weitere wenn wer wie wir wo zu zuerst zum zur zwar";

/// Returns whether a word in lower case, without its full stop, is an abbreviation in a language.
/// `precedes_number` says whether a digit comes after it.
pub(super) fn is_abbreviation(word: &str, language: &str, precedes_number: bool) -> bool {
    let own = BY_LANGUAGE.iter().find(|(code, _)| *code == language);
    own.is_some_and(|(_, words)| has_word(words, word))
        || precedes_number && has_word(BEFORE_NUMBERS, word)
}

/// Returns whether a German word in lower case that follows a number and a full stop begins a sentence,
/// so that the number is no ordinal.
pub(super) fn begins_german_sentence(word: &str) -> bool {
    has_word(GERMAN_STARTERS, word)
}

fn has_word(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|listed| listed == word)
}
