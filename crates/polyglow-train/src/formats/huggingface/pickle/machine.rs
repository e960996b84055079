//! As much of pickle's machine as saved weights need (Python's `pickletools` describes its instructions).

use std::collections::HashMap;

use crate::error::{Context, Result, bail, ensure, failed};

/// More nesting or values than any file of weights has.
const MOST_ITEMS: usize = 1 << 22;

/// A value of a pickled program.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// `None`, true, false, and what does not matter here.
    Nothing,
    Number(i64),
    Text(String),
    Tuple(Vec<Item>),
    /// A list, too.
    Dict(Vec<(Item, Item)>),
    /// The name of a class or function that is known here.
    Name(&'static str),
    /// Where numbers are: their kind and their key.
    Storage {
        kind: &'static str,
        key: String,
    },
    Tensor(Tensor),
    /// Where the values of a call or a dictionary begin.
    Mark,
}

/// A tensor over a part of a storage.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub(super) kind: &'static str,
    pub(super) key: String,
    /// In numbers.
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
}

/// What may be named: everything else could do harm, or means something unknown.
const NAMES: [&str; 14] = [
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
    "torch FloatStorage",
    "torch HalfStorage",
    "torch BFloat16Storage",
    "torch LongStorage",
    "torch IntStorage",
    "torch DoubleStorage",
    "torch ByteStorage",
    "torch BoolStorage",
    "torch ShortStorage",
    "torch CharStorage",
    "torch Size",
];

/// Runs one program, and says how many bytes it has.
///
/// # Errors
/// It is cut off, or says something that weights do not say.
pub(super) fn run(bytes: &[u8]) -> Result<(Item, usize)> {
    let mut machine = Machine { bytes, place: 0, stack: Vec::new(), memory: HashMap::new() };
    loop {
        let place = machine.place;
        match machine.step().with_context(|| format!("at byte {place} of its program"))? {
            Some(result) => return Ok((result, machine.place)),
            None => ensure!(machine.stack.len() <= MOST_ITEMS, "its program holds too many values"),
        }
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    place: usize,
    stack: Vec<Item>,
    memory: HashMap<u32, Item>,
}

impl Machine<'_> {
    /// Runs an instruction; gives the result at the end.
    fn step(&mut self) -> Result<Option<Item>> {
        match self.byte()? {
            b'.' => return self.pop().map(Some),
            // The version of the format, and the length of a frame.
            0x80 => drop(self.take(1)?),
            0x95 => drop(self.take(8)?),
            b'(' => self.stack.push(Item::Mark),
            b'}' | b']' => self.stack.push(Item::Dict(Vec::new())),
            b')' => self.stack.push(Item::Tuple(Vec::new())),
            b'N' | 0x88 | 0x89 => self.stack.push(Item::Nothing),
            b'K' | b'M' | b'J' | 0x8a | b'G' => self.number()?,
            b'X' | 0x8c | b'U' | b'T' => self.text()?,
            b'c' => self.global()?,
            0x93 => self.stack_global()?,
            b't' | 0x85 | 0x86 | 0x87 => self.tuple()?,
            b'Q' => self.persistent()?,
            b'R' => self.call()?,
            b's' | b'u' | b'e' | b'a' => self.fill()?,
            // The state of an object, and the attributes of a dictionary: nothing of it matters here.
            b'b' | b'0' => drop(self.pop()?),
            b'q' | b'r' | b'h' | b'j' | 0x94 => self.remember()?,
            other => bail!("its instruction {other:#04x} does not occur in weights"),
        }
        Ok(None)
    }

    fn number(&mut self) -> Result<()> {
        let number = match self.bytes[self.place - 1] {
            b'K' => i64::from(self.byte()?),
            b'M' => i64::from(u16::from_le_bytes(self.array()?)),
            b'J' => i64::from(i32::from_le_bytes(self.array()?)),
            b'G' => {
                self.take(8)?;
                self.stack.push(Item::Nothing);
                return Ok(());
            }
            _ => {
                let len = usize::from(self.byte()?);
                let mut number = [0; 8];
                let digits = self.take(len)?;
                // The first program of the oldest files is a number of ten bytes that says what they are.
                let kept = len.min(8);
                number[..kept].copy_from_slice(&digits[..kept]);
                i64::from_le_bytes(number)
            }
        };
        self.stack.push(Item::Number(number));
        Ok(())
    }

    fn text(&mut self) -> Result<()> {
        let len = match self.bytes[self.place - 1] {
            b'X' | b'T' => u32::from_le_bytes(self.array()?) as usize,
            _ => usize::from(self.byte()?),
        };
        let text = str::from_utf8(self.take(len)?).context("a text is not UTF-8")?.to_owned();
        self.stack.push(Item::Text(text));
        Ok(())
    }

    fn global(&mut self) -> Result<()> {
        let (module, name) = (self.line()?, self.line()?);
        self.named(&format!("{module} {name}"))
    }

    fn stack_global(&mut self) -> Result<()> {
        let (Item::Text(name), Item::Text(module)) = (self.pop()?, self.pop()?) else { bail!("a name is no text") };
        self.named(&format!("{module} {name}"))
    }

    fn named(&mut self, name: &str) -> Result<()> {
        let known = NAMES.into_iter().find(|known| *known == name);
        let known =
            known.with_context(|| format!("it names `{name}`, which does not belong to weights and is not run"))?;
        self.stack.push(Item::Name(known));
        Ok(())
    }

    fn tuple(&mut self) -> Result<()> {
        let items = match self.bytes[self.place - 1] {
            b't' => self.since_mark()?,
            short => {
                let first = self.stack.len().checked_sub(usize::from(short - 0x84));
                self.stack.split_off(first.context("its stack is empty")?)
            }
        };
        self.stack.push(Item::Tuple(items));
        Ok(())
    }

    /// `("storage", kind, key, device, size)`.
    fn persistent(&mut self) -> Result<()> {
        let Item::Tuple(items) = self.pop()? else { bail!("a storage is no tuple") };
        let [Item::Text(what), Item::Name(kind), Item::Text(key), ..] = &items[..] else {
            bail!("a storage is described in another way than PyTorch's")
        };
        ensure!(what == "storage", "there is a `{what}` where a storage is wanted");
        self.stack.push(Item::Storage { kind, key: key.clone() });
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Item::Tuple(mut arguments) = arguments else { bail!("the arguments of a call are no tuple") };
        let result = match function {
            Item::Name("collections OrderedDict") => Item::Dict(Vec::new()),
            Item::Name("torch._utils _rebuild_tensor_v2") => Item::Tensor(tensor(&arguments)?),
            Item::Name("torch._utils _rebuild_parameter") if !arguments.is_empty() => arguments.swap_remove(0),
            Item::Name("torch Size") => Item::Nothing,
            _ => bail!("it calls something that does not belong to weights"),
        };
        self.stack.push(result);
        Ok(())
    }

    /// Adds entries to the dictionary or list below them.
    fn fill(&mut self) -> Result<()> {
        let items = match self.bytes[self.place - 1] {
            b'u' | b'e' => self.since_mark()?,
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                vec![key, value]
            }
            _ => vec![self.pop()?],
        };
        let paired = matches!(self.bytes[self.place - 1], b's' | b'u');
        let Some(Item::Dict(entries)) = self.stack.last_mut() else { bail!("there is nothing to fill") };
        ensure!(entries.len() + items.len() <= MOST_ITEMS, "it holds too many values");
        let mut items = items.into_iter();
        while let Some(first) = items.next() {
            let second = if paired { items.next().context("a key has no value")? } else { Item::Nothing };
            entries.push((first, second));
        }
        Ok(())
    }

    fn remember(&mut self) -> Result<()> {
        let code = self.bytes[self.place - 1];
        let place = match code {
            b'q' | b'h' => u32::from(self.byte()?),
            b'r' | b'j' => u32::from_le_bytes(self.array()?),
            _ => self.memory.len() as u32,
        };
        if matches!(code, b'h' | b'j') {
            let item = self.memory.get(&place).context("it takes up what was never noted")?;
            // Only small values are taken up again; a copy of a large one could be repeated without end.
            let small = !matches!(item, Item::Dict(entries) if !entries.is_empty());
            ensure!(small, "it takes up a dictionary again");
            self.stack.push(item.clone());
        } else {
            let item = self.stack.last().context("its stack is empty")?;
            // Dictionaries are noted before they are filled, and would be copied as they grow.
            let item = if matches!(item, Item::Mark) { bail!("it notes a mark") } else { item.clone() };
            self.memory.insert(place, item);
        }
        Ok(())
    }

    fn pop(&mut self) -> Result<Item> {
        self.stack.pop().context("its stack is empty")
    }

    fn since_mark(&mut self) -> Result<Vec<Item>> {
        let mark = self.stack.iter().rposition(|item| *item == Item::Mark).context("there is no mark")?;
        let items = self.stack.split_off(mark + 1);
        self.stack.pop();
        Ok(items)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| failed!("it is cut off"))
    }

    fn take(&mut self, len: usize) -> Result<&[u8]> {
        let end = self.place.checked_add(len).filter(|end| *end <= self.bytes.len()).context("it is cut off")?;
        let taken = &self.bytes[self.place..end];
        self.place = end;
        Ok(taken)
    }

    fn line(&mut self) -> Result<String> {
        let rest = &self.bytes[self.place..];
        let len = rest.iter().position(|byte| *byte == b'\n').context("it is cut off")?;
        let line = str::from_utf8(&rest[..len]).context("a name is not UTF-8")?.to_owned();
        self.place += len + 1;
        Ok(line)
    }
}

/// `(storage, offset, shape, strides, ...)`.
fn tensor(arguments: &[Item]) -> Result<Tensor> {
    let [Item::Storage { kind, key }, Item::Number(offset), Item::Tuple(shape), Item::Tuple(strides), ..] = arguments
    else {
        bail!("a tensor is made in another way than PyTorch's")
    };
    let size = |item: &Item| match item {
        Item::Number(number) => usize::try_from(*number).map_err(|_| failed!("a size is {number}")),
        _ => Err(failed!("a size is no number")),
    };
    let sizes = |items: &[Item]| items.iter().map(size).collect::<Result<Vec<usize>>>();
    let (shape, strides) = (sizes(shape)?, sizes(strides)?);
    ensure!(shape.len() == strides.len() && shape.len() <= 8, "a tensor has {} axes", shape.len());
    Ok(Tensor { kind, key: key.clone(), offset: size(&Item::Number(*offset))?, shape, strides })
}
