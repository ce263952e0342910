//! Ports that the parser cannot recognise, because an environment maps their type, or because they are in a
//! nested template or a group: they also come after the subnets of their network.
//!
//! Absent: ports that the parser recognises (`resolve/address.rs`).

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use super::super::parts::NONE;
use super::{Expander, Found, Frame, ResourceForm, joined};
use crate::Limits;
use crate::expression::{Expr, ExprKind};
use crate::resolve::address::{Named, Networks, named, network_of};
use crate::template::Template;
use crate::types::Kind;

impl Expander<'_> {
    /// Further dependencies of a resource: those of the stack's resources that come before its ports.
    pub(super) fn before_its_ports(
        &mut self,
        scope: u32,
        at: u32,
        found: &Found,
        frame: &Frame<'_>,
    ) -> Vec<u32> {
        let template = Arc::clone(&self.parts.scopes[scope as usize].template);
        let resource = &template.resources[at as usize];
        let may_have = match found.what {
            ResourceForm::Plain(Kind::Port) => resource.kind != Kind::Port,
            ResourceForm::Plain(kind) => kind == Kind::Group,
            ResourceForm::Stack { .. } => true,
        };
        let networks = self.networks(&template);
        if !may_have || networks.is_empty() {
            return Vec::new();
        }
        let index = self.parts.scopes[scope as usize].map[at as usize];
        let path = Arc::clone(&self.parts.instances[index as usize].name);
        let mut names = self.ports_networks(index, &found.what, &resource.properties, &path, frame);
        names.sort();
        names.dedup();
        let mut needs: Vec<u32> = names.into_iter().flat_map(|name| networks.needs(name, true)).collect();
        needs.sort_unstable();
        needs.dedup();
        // A resource that already waits for this one cannot come before it.
        needs.retain(|need| !self.leads_to(scope, &template, *need, at));
        if !needs.is_empty() {
            self.after_subnets.insert((scope, at), needs.clone());
        }
        let map = &self.parts.scopes[scope as usize].map;
        needs.iter().map(|need| map[*need as usize]).filter(|need| *need != NONE).collect()
    }

    fn networks(&mut self, template: &Arc<Template>) -> Rc<Networks> {
        let key = Arc::as_ptr(template) as usize;
        let make = || {
            let resources = template.resources.iter();
            Rc::new(Networks::new(resources.map(|resource| (Some(resource.kind), &resource.properties))))
        };
        Rc::clone(self.networks.entry(key).or_insert_with(make))
    }

    /// The networks of all ports in a resource, by the names used in the resource's own template.
    fn ports_networks(
        &mut self,
        index: u32,
        what: &ResourceForm,
        properties: &Expr,
        path: &str,
        frame: &Frame<'_>,
    ) -> Vec<Named> {
        match what {
            ResourceForm::Plain(Kind::Port) => network_of(properties).into_iter().collect(),
            ResourceForm::Plain(Kind::Group) => {
                let definition = properties.entry("resource_def").map(|entry| &entry.value);
                let part = |key: &str| definition.and_then(|it| it.entry(key)).map(|entry| &entry.value);
                let (Some(kind), Some(inner)) = (part("type"), part("properties")) else { return Vec::new() };
                let ExprKind::Text(kind) = &kind.kind else { return Vec::new() };
                let path = joined(path, "0");
                // Its members report the error.
                let Ok(found) = self.find_type(index, kind, &path, frame) else { return Vec::new() };
                self.ports_networks(index, &found.what, inner, &path, frame)
            }
            ResourceForm::Plain(_) => Vec::new(),
            ResourceForm::Stack { key, entry } => {
                if frame.cycle(key).is_some() || frame.depth >= Limits::NESTED {
                    return Vec::new();
                }
                // Opening it reports the error.
                let Ok(template) = self.template(index, key) else { return Vec::new() };
                let frame = Frame { up: Some(frame), key, entry: *entry, depth: frame.depth + 1 };
                let known = self.port_networks.get(&(key.clone(), *entry)).cloned();
                let names = known.unwrap_or_else(|| self.templates_networks(index, &template, path, &frame));
                names.iter().filter_map(|name| self.outside(&template, name.clone(), properties)).collect()
            }
        }
    }

    /// The networks of all ports in the template of a frame, by its own names: searched once, however often
    /// it is used.
    fn templates_networks(
        &mut self,
        index: u32,
        template: &Template,
        path: &str,
        frame: &Frame<'_>,
    ) -> Rc<[Named]> {
        let mut names = BTreeSet::new();
        for resource in &template.resources {
            let path = joined(path, &resource.name);
            let what = match (resource.type_name(), resource.kind) {
                (Some(kind), Kind::Nested) => self.find_type(index, kind, &path, frame).map(|it| it.what),
                (_, kind) => Ok(ResourceForm::Plain(kind)),
            };
            if let Ok(what) = what {
                names.extend(self.ports_networks(index, &what, &resource.properties, &path, frame));
            }
        }
        let names: Rc<[Named]> = names.into_iter().collect();
        self.port_networks.insert((frame.key.to_owned(), frame.entry), Rc::clone(&names));
        names
    }

    /// The outer template's name for a network of a nested template, which receives `properties`.
    fn outside(&self, template: &Template, name: Named, properties: &Expr) -> Option<Named> {
        match name {
            Named::Text(_) => Some(name),
            Named::Resource(_) => None, // its own
            Named::Parameter(parameter) => {
                let definition = &template.parameters[parameter as usize];
                if let Some(given) = properties.entry(&definition.name) {
                    return named(&given.value);
                }
                let environment = self.library.environment.default_of(definition).and_then(Result::ok);
                let text = environment.or_else(|| definition.default.clone())?;
                text.as_str().map(|text| Named::Text(text.into()))
            }
        }
    }

    /// Whether a resource of a stack needs another, directly or not.
    fn leads_to(&self, scope: u32, template: &Template, from: u32, to: u32) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if at == to {
                return true;
            }
            if seen.insert(at) {
                open.extend(template.resources[at as usize].requires.iter());
                open.extend(self.after_subnets.get(&(scope, at)).into_iter().flatten());
            }
        }
        false
    }
}
