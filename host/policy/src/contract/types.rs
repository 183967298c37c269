//! Types of the component model, compared by structure: names of types do not count, names of fields and cases do.

use wit_parser::{Function, Resolve, Type, TypeDefKind};

/// Says where a function differs from the contract's, what is there and what should be.
pub(super) fn compare(theirs: &Resolve, found: &Function, ours: &Resolve, expected: &Function) -> Result<(), String> {
    let both = Both { theirs, ours };
    let (a, b) = (found.params.len(), expected.params.len());
    if a != b {
        return Err(format!("it takes {a} parameters, the contract {b}"));
    }
    for (found, expected) in found.params.iter().zip(&expected.params) {
        if found.name != expected.name {
            return Err(format!("it has a parameter `{}` where the contract has `{}`", found.name, expected.name));
        }
        both.same(&found.name, Some(found.ty), Some(expected.ty))?;
    }
    both.same("the result", found.result, expected.result)
}

struct Both<'a> {
    theirs: &'a Resolve,
    ours: &'a Resolve,
}

impl Both<'_> {
    fn same(&self, at: &str, found: Option<Type>, expected: Option<Type>) -> Result<(), String> {
        let differs = || Err(format!("{at} is {}, in the contract {}", short(self.theirs, found), short(self.ours, expected)));
        let (Some(a), Some(b)) = (found, expected) else {
            return if found.is_none() && expected.is_none() { Ok(()) } else { differs() };
        };
        let (Type::Id(a), Type::Id(b)) = (unaliased(self.theirs, a), unaliased(self.ours, b)) else {
            return if unaliased(self.theirs, a) == unaliased(self.ours, b) { Ok(()) } else { differs() };
        };
        match (&self.theirs.types[a].kind, &self.ours.types[b].kind) {
            (TypeDefKind::Record(a), TypeDefKind::Record(b)) => {
                self.same_names(at, "field", a.fields.iter().map(|f| &f.name), b.fields.iter().map(|f| &f.name))?;
                a.fields
                    .iter()
                    .zip(&b.fields)
                    .try_for_each(|(a, b)| self.same(&format!("{at}.{}", a.name), Some(a.ty), Some(b.ty)))
            }
            (TypeDefKind::Variant(a), TypeDefKind::Variant(b)) => {
                self.same_names(at, "case", a.cases.iter().map(|c| &c.name), b.cases.iter().map(|c| &c.name))?;
                a.cases.iter().zip(&b.cases).try_for_each(|(a, b)| self.same(&format!("{at}.{}", a.name), a.ty, b.ty))
            }
            (TypeDefKind::Enum(a), TypeDefKind::Enum(b)) => {
                self.same_names(at, "case", a.cases.iter().map(|c| &c.name), b.cases.iter().map(|c| &c.name))
            }
            (TypeDefKind::Flags(a), TypeDefKind::Flags(b)) => {
                self.same_names(at, "flag", a.flags.iter().map(|f| &f.name), b.flags.iter().map(|f| &f.name))
            }
            (TypeDefKind::Tuple(a), TypeDefKind::Tuple(b)) if a.types.len() == b.types.len() => a
                .types
                .iter()
                .zip(&b.types)
                .enumerate()
                .try_for_each(|(i, (a, b))| self.same(&format!("{at}.{i}"), Some(*a), Some(*b))),
            (TypeDefKind::Option(a), TypeDefKind::Option(b)) => self.same(at, Some(*a), Some(*b)),
            (TypeDefKind::List(a), TypeDefKind::List(b)) => self.same(&format!("{at}[]"), Some(*a), Some(*b)),
            (TypeDefKind::Result(a), TypeDefKind::Result(b)) => {
                self.same(&format!("{at} (ok)"), a.ok, b.ok)?;
                self.same(&format!("{at} (error)"), a.err, b.err)
            }
            _ => differs(),
        }
    }

    fn same_names<'n>(
        &self,
        at: &str,
        what: &str,
        found: impl Iterator<Item = &'n String>,
        expected: impl Iterator<Item = &'n String>,
    ) -> Result<(), String> {
        let (found, expected) = (found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        if found == expected {
            return Ok(());
        }
        Err(match expected.iter().find(|name| !found.contains(name)) {
            Some(missing) => format!("{at} lacks the {what} `{missing}`"),
            None => match found.iter().find(|name| !expected.contains(name)) {
                Some(extra) => format!("{at} has a {what} `{extra}` that the contract does not know"),
                None => format!("{at} has its {what}s in another order than the contract"),
            },
        })
    }
}

/// What a type stands for, `use` and `type` resolved.
fn unaliased(resolve: &Resolve, mut ty: Type) -> Type {
    while let Type::Id(id) = ty {
        match resolve.types[id].kind {
            TypeDefKind::Type(inner) => ty = inner,
            _ => break,
        }
    }
    ty
}

/// A type in few words.
fn short(resolve: &Resolve, ty: Option<Type>) -> String {
    let Some(ty) = ty else { return "nothing".into() };
    match unaliased(resolve, ty) {
        Type::Id(id) => match &resolve.types[id].kind {
            TypeDefKind::Option(inner) => format!("option<{}>", short(resolve, Some(*inner))),
            TypeDefKind::List(inner) => format!("list<{}>", short(resolve, Some(*inner))),
            kind => format!("a {}", kind.as_str()),
        },
        primitive => format!("{primitive:?}").to_lowercase(),
    }
}
