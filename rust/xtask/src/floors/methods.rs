// SPDX-License-Identifier: GPL-2.0

//! The files that own the methods and fields that a file uses.
//!
//! The type of a value is known if it is `self`, a parameter or a variable with a written type, a
//! field of a known type, the result of a method or function with a written type, or what a method
//! with a written type gives to a closure. A type that is wrapped counts: the guard of a lock of a
//! `Qp` is a `Qp`. Elsewhere a method counts if only one
//! file has one of its name, and the standard library has none. Not seen are other methods of
//! unknown types, macros that are no list of expressions, and functions that C calls.

use super::types::{base, bounds, Key, Types};
use std::collections::{BTreeMap, BTreeSet};
use syn::{
    parse::Parser,
    punctuated::Punctuated,
    visit::{self, Visit},
    Expr, ExprCall, ExprClosure, ExprField, ExprMethodCall, FnArg, ImplItemFn, ItemFn, ItemImpl,
    Local, Macro, Member, Pat, Token,
};

/// Methods of the standard library and of the kernel crate that types of ours have as well.
const COMMON: [&str; 39] = [
    "add",
    "as_mut_ptr",
    "as_ptr",
    "as_ref",
    "as_slice",
    "clear",
    "clone",
    "count",
    "drop",
    "each",
    "eq",
    "fetch",
    "fill",
    "find",
    "get",
    "get_mut",
    "init",
    "insert",
    "is_empty",
    "is_ipv4",
    "is_ipv6",
    "iter",
    "len",
    "lock",
    "map",
    "name",
    "next",
    "pop",
    "push",
    "remove",
    "replace",
    "set",
    "size",
    "skip",
    "split",
    "store",
    "sum",
    "take",
    "wake",
];

/// The uses of other files by a file.
#[derive(Default)]
pub(super) struct Uses {
    /// The modules, each with one of the names.
    pub(super) modules: BTreeMap<String, String>,
    /// Methods that more than one file has, of values of unknown types.
    pub(super) unclear: BTreeSet<String>,
}

pub(super) fn of(module: &str, file: &syn::File, types: &Types) -> Uses {
    let mut reader = Reader {
        module,
        types,
        own: None,
        bounds: BTreeMap::new(),
        values: BTreeMap::new(),
        uses: Uses::default(),
    };
    reader.visit_file(file);
    reader.uses.modules.remove(module);
    reader.uses
}

struct Reader<'a> {
    module: &'a str,
    types: &'a Types,
    /// The type with the `impl` that is read.
    own: Option<String>,
    bounds: BTreeMap<String, String>,
    /// The types of variables.
    values: BTreeMap<String, Option<Key>>,
    uses: Uses,
}

impl Reader<'_> {
    fn named(&self, name: &str) -> Option<Key> {
        let name = match name {
            "Self" => self.own.as_deref()?,
            name => self.bounds.get(name).map_or(name, String::as_str),
        };
        self.types.find(self.module, name)
    }

    fn note(&mut self, module: &str, what: &str) {
        let known = self.uses.modules.entry(module.to_owned());
        known.or_insert_with(|| what.to_owned());
    }

    /// The type of a value. Names on the way there are noted by the visit of each part.
    fn ty(&self, expr: &Expr) -> Option<Key> {
        match expr {
            Expr::Path(path) => {
                let name = path.path.get_ident()?.to_string();
                if name == "self" {
                    return self.named("Self");
                }
                self.values.get(&name)?.clone()
            }
            Expr::Field(field) => {
                let base = self.ty(&field.base)?;
                let name = name_of(&field.member);
                match self.types.field(&base, &name)?.gives {
                    Some((module, gives)) => self.types.find(&module, &gives),
                    None => None,
                }
            }
            Expr::MethodCall(call) => {
                let base = self.ty(&call.receiver)?;
                match self.types.method(&base, &call.method.to_string()) {
                    Some(method) => {
                        let (module, gives) = method.gives?;
                        self.types.find(&module, &gives)
                    }
                    // A lock, an iterator, a reference to the same.
                    None => Some(base),
                }
            }
            Expr::Call(call) => self.call_ty(call),
            Expr::Struct(new) => self.named(&new.path.segments.last()?.ident.to_string()),
            Expr::Reference(inner) => self.ty(&inner.expr),
            Expr::Paren(inner) => self.ty(&inner.expr),
            Expr::Try(inner) => self.ty(&inner.expr),
            Expr::Unary(inner) => self.ty(&inner.expr),
            Expr::Index(inner) => self.ty(&inner.expr),
            Expr::Unsafe(inner) => match inner.block.stmts.last()? {
                syn::Stmt::Expr(last, None) => self.ty(last),
                _ => None,
            },
            Expr::Block(inner) => match inner.block.stmts.last()? {
                syn::Stmt::Expr(last, None) => self.ty(last),
                _ => None,
            },
            _ => None,
        }
    }

    /// The type of a call's result.
    fn call_ty(&self, call: &ExprCall) -> Option<Key> {
        let Expr::Path(path) = &*call.func else {
            return None;
        };
        let mut names = path.path.segments.iter().rev().map(|s| s.ident.to_string());
        let (last, owner) = (names.next()?, names.next());
        let argument = || call.args.first().and_then(|first| self.ty(first));
        match owner {
            None if last == "Some" || last == "Ok" => argument(),
            Some(owner) => {
                let Some(owner) = self.named(&owner) else {
                    return argument();
                };
                let (module, gives) = self.types.method(&owner, &last)?.gives?;
                self.types.find(&module, &gives)
            }
            None => None,
        }
    }

    /// Gives the variables of a pattern the type of the value.
    fn bind(&mut self, pattern: &Pat, ty: Option<&Key>) {
        match pattern {
            Pat::Ident(name) => {
                self.values.insert(name.ident.to_string(), ty.cloned());
            }
            Pat::Type(typed) => {
                let known = base(&typed.ty).and_then(|name| self.named(&name));
                self.bind(&typed.pat, known.as_ref());
            }
            Pat::Reference(inner) => self.bind(&inner.pat, ty),
            Pat::Paren(inner) => self.bind(&inner.pat, ty),
            Pat::TupleStruct(parts) => {
                let one = if parts.elems.len() == 1 { ty } else { None };
                for part in &parts.elems {
                    self.bind(part, one);
                }
            }
            Pat::Tuple(parts) => {
                for part in &parts.elems {
                    self.bind(part, None);
                }
            }
            Pat::Struct(parts) => {
                let named = parts.path.segments.last().map(|s| s.ident.to_string());
                let own = named.and_then(|name| self.named(&name));
                for part in &parts.fields {
                    let field = own
                        .as_ref()
                        .and_then(|own| self.types.field(own, &name_of(&part.member)))
                        .and_then(|field| field.gives)
                        .and_then(|(module, gives)| self.types.find(&module, &gives));
                    self.bind(&part.pat, field.as_ref());
                }
            }
            _ => {}
        }
    }

    fn enter(&mut self, signature: &syn::Signature) {
        self.values.clear();
        for input in &signature.inputs {
            if let FnArg::Typed(typed) = input {
                let known = base(&typed.ty).and_then(|name| self.named(&name));
                self.bind(&typed.pat, known.as_ref());
            }
        }
    }
}

fn name_of(member: &Member) -> String {
    match member {
        Member::Named(name) => name.to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let before = (self.own.take(), std::mem::take(&mut self.bounds));
        self.own = base(&item.self_ty);
        self.bounds = bounds(&item.generics);
        visit::visit_item_impl(self, item);
        (self.own, self.bounds) = before;
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.bounds.extend(bounds(&item.sig.generics));
        self.enter(&item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.bounds.extend(bounds(&item.sig.generics));
        self.enter(&item.sig);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_local(&mut self, local: &'ast Local) {
        visit::visit_local(self, local);
        let ty = local.init.as_ref().and_then(|init| self.ty(&init.expr));
        self.bind(&local.pat, ty.as_ref());
    }

    fn visit_expr_let(&mut self, test: &'ast syn::ExprLet) {
        visit::visit_expr_let(self, test);
        let ty = self.ty(&test.expr);
        self.bind(&test.pat, ty.as_ref());
    }

    fn visit_expr_match(&mut self, choice: &'ast syn::ExprMatch) {
        let ty = self.ty(&choice.expr);
        self.visit_expr(&choice.expr);
        for arm in &choice.arms {
            self.bind(&arm.pat, ty.as_ref());
            self.visit_arm(arm);
        }
    }

    fn visit_expr_for_loop(&mut self, each: &'ast syn::ExprForLoop) {
        let ty = self.ty(&each.expr);
        self.bind(&each.pat, ty.as_ref());
        visit::visit_expr_for_loop(self, each);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let name = call.method.to_string();
        let receiver = self.ty(&call.receiver);
        match &receiver {
            Some(key) => {
                if let Some(method) = self.types.method(key, &name) {
                    self.note(&method.module, &name);
                }
            }
            None if COMMON.contains(&name.as_str()) => {}
            None => match self.types.only(&name) {
                (Some(module), _) => {
                    let module = module.to_owned();
                    self.note(&module, &name);
                }
                (None, 0) => {}
                (None, _) => drop(self.uses.unclear.insert(name.clone())),
            },
        }
        self.visit_expr(&call.receiver);
        for (at, argument) in call.args.iter().enumerate() {
            if let Expr::Closure(closure) = argument {
                let key = receiver.as_ref();
                let known = key.and_then(|key| self.types.closure(key, &name, at));
                for (at, input) in closure.inputs.iter().enumerate() {
                    match &known {
                        Some(types) => self.bind(input, types.get(at).and_then(Option::as_ref)),
                        // The closure of `Option::map` and the like gets what is wrapped.
                        None => self.bind(input, key),
                    }
                }
            }
            self.visit_expr(argument);
        }
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        for input in closure.inputs.iter() {
            if matches!(input, Pat::Type(_)) {
                self.bind(input, None);
            }
        }
        visit::visit_expr_closure(self, closure);
    }

    fn visit_expr_field(&mut self, field: &'ast ExprField) {
        if let Some(owner) = self.ty(&field.base) {
            let name = name_of(&field.member);
            if let Some(found) = self.types.field(&owner, &name) {
                self.note(&found.module, &name);
            }
        }
        visit::visit_expr_field(self, field);
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        // `Type::method`, which may stand in another file than the type.
        let mut names = path.path.segments.iter().rev().map(|s| s.ident.to_string());
        if let (Some(name), Some(owner)) = (names.next(), names.next()) {
            let method = self
                .named(&owner)
                .and_then(|owner| self.types.method(&owner, &name));
            if let Some(method) = method {
                self.note(&method.module, &name);
            }
        }
        visit::visit_expr_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        let list = Punctuated::<Expr, Token![,]>::parse_terminated;
        if let Ok(parts) = list.parse2(call.tokens.clone()) {
            for part in &parts {
                // Its own reader lives as long as the list.
                let mut inner = Reader {
                    module: self.module,
                    types: self.types,
                    own: self.own.clone(),
                    bounds: self.bounds.clone(),
                    values: self.values.clone(),
                    uses: Uses::default(),
                };
                inner.visit_expr(part);
                let Uses { modules, unclear } = inner.uses;
                for (module, name) in modules {
                    self.note(&module, &name);
                }
                self.uses.unclear.extend(unclear);
            }
        }
    }
}
