// SPDX-License-Identifier: GPL-2.0

//! The types of a crate, as far as their names tell: fields, methods, and the file of each.

use std::collections::{BTreeMap, BTreeSet};
use syn::{
    visit::{self, Visit},
    FnArg, GenericArgument, Generics, ImplItem, Item, ItemEnum, ItemImpl, ItemStruct, ItemTrait,
    ItemType, PathArguments, ReturnType, TraitItem, Type, TypeParamBound,
};

/// Types that stand for their content where a field or a method is named.
const WRAPPERS: [&str; 26] = [
    "Arc",
    "ArcBorrow",
    "Atomic",
    "Box",
    "Cell",
    "Guard",
    "KBox",
    "KVBox",
    "KVVec",
    "KVec",
    "ManuallyDrop",
    "MaybeUninit",
    "Mutex",
    "NonNull",
    "Opaque",
    "Option",
    "Pin",
    "PinInit",
    "RefCell",
    "Result",
    "SetOnce",
    "SpinLock",
    "SpinLockIrq",
    "UniqueArc",
    "UnsafeCell",
    "Vec",
];

/// A type by the module that defines it and its name there.
pub(super) type Key = (String, String);

/// The known properties of a type, or of a trait.
#[derive(Default)]
struct Known {
    /// The names of the types of its fields.
    fields: BTreeMap<String, Option<String>>,
    /// The modules that define a method, each with the name of the type that it returns.
    methods: BTreeMap<String, (String, Option<String>)>,
    /// For each method, and each of its arguments that is a closure, the names of the types that
    /// the closure gets.
    closures: BTreeMap<(String, usize), Vec<Option<String>>>,
    /// The type that this is another name of.
    alias: Option<String>,
}

/// The types of a crate.
#[derive(Default)]
pub(super) struct Types {
    known: BTreeMap<Key, Known>,
    /// The modules with a type of a name.
    named: BTreeMap<String, BTreeSet<String>>,
    /// For each module those that it imports from.
    imported: BTreeMap<String, BTreeSet<String>>,
    /// The modules that define a method, or a field, of a name.
    members: BTreeMap<String, BTreeSet<String>>,
}

/// A method or a field that code names.
pub(super) struct Member {
    /// The module that defines it.
    pub(super) module: String,
    /// The type that it gives, with the module that names it.
    pub(super) gives: Option<(String, String)>,
}

/// The name of the type that `ty` is, or that it wraps.
pub(super) fn base(ty: &Type) -> Option<String> {
    match ty {
        Type::Reference(inner) => base(&inner.elem),
        Type::Ptr(inner) => base(&inner.elem),
        Type::Paren(inner) => base(&inner.elem),
        Type::Group(inner) => base(&inner.elem),
        Type::Slice(inner) => base(&inner.elem),
        Type::Array(inner) => base(&inner.elem),
        Type::ImplTrait(inner) => inner.bounds.iter().find_map(bound),
        Type::TraitObject(inner) => inner.bounds.iter().find_map(bound),
        Type::Path(path) => last_of(&path.path),
        _ => None,
    }
}

fn bound(bound: &TypeParamBound) -> Option<String> {
    match bound {
        TypeParamBound::Trait(bound) => last_of(&bound.path),
        _ => None,
    }
}

fn last_of(path: &syn::Path) -> Option<String> {
    let last = path.segments.last()?;
    let name = last.ident.to_string();
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) if WRAPPERS.contains(&name.as_str()) => {
            arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(ty) => base(ty),
                _ => None,
            })
        }
        _ => Some(name),
    }
}

/// The first bound of each parameter: a value of `T: Peer` has the methods of `Peer`.
pub(super) fn bounds(generics: &Generics) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for parameter in generics.type_params() {
        if let Some(name) = parameter.bounds.iter().find_map(bound) {
            found.insert(parameter.ident.to_string(), name);
        }
    }
    found
}

/// The names of the types that a closure gets, if `ty` is one.
fn arguments(ty: &Type) -> Option<Vec<Option<String>>> {
    let Type::ImplTrait(inner) = ty else {
        return None;
    };
    inner.bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else {
            return None;
        };
        match &bound.path.segments.last()?.arguments {
            PathArguments::Parenthesized(call) => Some(call.inputs.iter().map(base).collect()),
            _ => None,
        }
    })
}

pub(super) fn returned(output: &ReturnType, own: &str) -> Option<String> {
    let ReturnType::Type(_, ty) = output else {
        return None;
    };
    base(ty).map(|name| if name == "Self" { own.to_owned() } else { name })
}

impl Types {
    /// Adds the types of a file. `imports` are the modules that it imports from.
    pub(super) fn add(&mut self, module: &str, file: &syn::File, imports: BTreeSet<String>) {
        self.imported.insert(module.to_owned(), imports);
        Definitions {
            types: self,
            module,
        }
        .visit_file(file);
    }

    /// Adds the methods of a file, when all types are known.
    pub(super) fn add_methods(&mut self, module: &str, file: &syn::File) {
        Methods {
            types: self,
            module,
        }
        .visit_file(file);
    }

    /// The types with methods in a file, other than a trait's, each with its module.
    pub(super) fn owners(&self, module: &str, file: &syn::File) -> Vec<(String, String)> {
        let own = file.items.iter().filter_map(|item| match item {
            Item::Impl(item) if item.trait_.is_none() => base(&item.self_ty),
            _ => None,
        });
        own.filter_map(|name| Some((name.clone(), self.find(module, &name)?.0)))
            .collect()
    }

    fn define(&mut self, module: &str, name: &str) -> &mut Known {
        let modules = self.named.entry(name.to_owned()).or_default();
        modules.insert(module.to_owned());
        let key = (module.to_owned(), name.to_owned());
        self.known.entry(key).or_default()
    }

    /// The type that `module` means by `name`.
    pub(super) fn find(&self, module: &str, name: &str) -> Option<Key> {
        let modules = self.named.get(name)?;
        let own = modules.get(module);
        let imported = self.imported.get(module);
        let mut others = modules
            .iter()
            .filter(|other| imported.is_some_and(|known| known.contains(*other)));
        let only = match (others.next(), others.next()) {
            (Some(one), None) => Some(one),
            _ if modules.len() == 1 => modules.first(),
            _ => None,
        };
        let found = own.or(only)?;
        let key = (found.clone(), name.to_owned());
        match self.known.get(&key).and_then(|known| known.alias.as_ref()) {
            Some(alias) if alias != name || found != module => {
                let modules = self.named.get(alias)?;
                // An alias may have the name of its type.
                let real = modules.iter().find(|other| {
                    *other != found && self.imported.get(found).is_some_and(|i| i.contains(*other))
                });
                real.map(|real| (real.clone(), alias.clone()))
            }
            _ => Some(key),
        }
    }

    pub(super) fn method(&self, key: &Key, name: &str) -> Option<Member> {
        let (module, gives) = self.known.get(key)?.methods.get(name)?;
        Some(Member {
            module: module.clone(),
            gives: gives.clone().map(|gives| (module.clone(), gives)),
        })
    }

    /// The types that a closure gets which is the argument `at` of a method.
    pub(super) fn closure(&self, key: &Key, name: &str, at: usize) -> Option<Vec<Option<Key>>> {
        let known = self.known.get(key)?;
        let (module, _) = known.methods.get(name)?;
        let names = known.closures.get(&(name.to_owned(), at))?.iter();
        let types = names.map(|name| self.find(module, name.as_ref()?));
        Some(types.collect())
    }

    pub(super) fn field(&self, key: &Key, name: &str) -> Option<Member> {
        let gives = self.known.get(key)?.fields.get(name)?;
        Some(Member {
            module: key.0.clone(),
            gives: gives.clone().map(|gives| (key.0.clone(), gives)),
        })
    }

    /// The module of the only method of that name, and how many there are.
    pub(super) fn only(&self, name: &str) -> (Option<&str>, usize) {
        match self.members.get(name) {
            Some(modules) if modules.len() == 1 => (modules.first().map(String::as_str), 1),
            Some(modules) => (None, modules.len()),
            None => (None, 0),
        }
    }
}

struct Definitions<'a> {
    types: &'a mut Types,
    module: &'a str,
}

impl<'ast> Visit<'ast> for Definitions<'_> {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        let bounds = bounds(&item.generics);
        let known = self.types.define(self.module, &item.ident.to_string());
        for (at, field) in item.fields.iter().enumerate() {
            let name = field
                .ident
                .as_ref()
                .map_or_else(|| at.to_string(), ToString::to_string);
            let ty = base(&field.ty).map(|ty| bounds.get(&ty).cloned().unwrap_or(ty));
            known.fields.insert(name, ty);
        }
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.types.define(self.module, &item.ident.to_string());
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        let alias = base(&item.ty);
        let known = self.types.define(self.module, &item.ident.to_string());
        known.alias = alias;
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        let own = item.ident.to_string();
        let known = self.types.define(self.module, &own);
        for part in &item.items {
            if let TraitItem::Fn(method) = part {
                let gives = returned(&method.sig.output, &own);
                let name = method.sig.ident.to_string();
                known.methods.insert(name, (self.module.to_owned(), gives));
            }
        }
    }
}

struct Methods<'a> {
    types: &'a mut Types,
    module: &'a str,
}

impl<'ast> Visit<'ast> for Methods<'_> {
    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        // A name that a trait has, too, tells nothing of the type.
        for part in &item.items {
            if let TraitItem::Fn(method) = part {
                self.member(&method.sig.ident.to_string());
            }
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let Some(own) = base(&item.self_ty) else {
            return;
        };
        let Some(key) = self.types.find(self.module, &own) else {
            return;
        };
        let bounds = bounds(&item.generics);
        for part in &item.items {
            let ImplItem::Fn(method) = part else { continue };
            let name = method.sig.ident.to_string();
            let gives = returned(&method.sig.output, &own)
                .map(|name| bounds.get(&name).cloned().unwrap_or(name));
            if let Some(known) = self.types.known.get_mut(&key) {
                let place = (self.module.to_owned(), gives);
                known.methods.entry(name.clone()).or_insert(place);
                let typed = method.sig.inputs.iter().filter_map(|input| match input {
                    FnArg::Typed(typed) => Some(typed),
                    FnArg::Receiver(_) => None,
                });
                for (at, argument) in typed.enumerate() {
                    if let Some(types) = arguments(&argument.ty) {
                        known.closures.entry((name.clone(), at)).or_insert(types);
                    }
                }
            }
            if matches!(method.sig.inputs.first(), Some(FnArg::Receiver(_))) {
                self.member(&name);
            }
        }
        visit::visit_item_impl(self, item);
    }
}

impl Methods<'_> {
    fn member(&mut self, name: &str) {
        let modules = self.types.members.entry(name.to_owned()).or_default();
        modules.insert(self.module.to_owned());
    }
}
