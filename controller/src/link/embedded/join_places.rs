//! Places of clients that join. rumqttd keeps every client id and topic that it ever saw, so a joiner has those of its
//! place there: anybody may draw a new nonce as often as they like.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Joiners at a time; each has ten seconds.
pub(super) const PLACES: usize = 64;

/// Nonces by place.
pub(super) struct JoinPlaces(Mutex<[Option<String>; PLACES]>);

/// A joiner's place; dropping it gives it back.
pub(super) struct JoinPlace {
    places: Arc<JoinPlaces>,
    number: usize,
}

impl Default for JoinPlaces {
    fn default() -> Self {
        Self(Mutex::new([const { None }; PLACES]))
    }
}

impl JoinPlaces {
    /// A place for this nonce; `None` if all are taken, or somebody has that nonce.
    pub(super) fn take(self: &Arc<Self>, nonce: &str) -> Option<JoinPlace> {
        let mut places = self.lock();
        if places.iter().flatten().any(|taken| taken == nonce) {
            return None;
        }
        let number = places.iter().position(Option::is_none)?;
        places[number] = Some(nonce.to_owned());
        Some(JoinPlace { places: Arc::clone(self), number })
    }

    /// The place of this nonce.
    pub(super) fn number_of(&self, nonce: &str) -> Option<usize> {
        self.lock().iter().position(|taken| taken.as_deref() == Some(nonce))
    }

    /// The nonce at a place.
    pub(super) fn nonce_at(&self, number: usize) -> Option<String> {
        self.lock().get(number)?.clone()
    }

    /// The list is whole at every point that can panic.
    fn lock(&self) -> MutexGuard<'_, [Option<String>; PLACES]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JoinPlace {
    pub(super) fn number(&self) -> usize {
        self.number
    }
}

impl Drop for JoinPlace {
    fn drop(&mut self) {
        self.places.lock()[self.number] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_one_joiners_and_comes_back() {
        let places = Arc::<JoinPlaces>::default();
        let taken: Vec<_> = (0..PLACES).map(|n| places.take(&format!("nonce{n}")).unwrap()).collect();
        assert!(places.take("another").is_none(), "all are taken");
        assert_eq!((places.number_of("nonce3"), places.nonce_at(3).as_deref()), (Some(3), Some("nonce3")));
        drop(taken);
        assert_eq!((places.number_of("nonce3"), places.nonce_at(3)), (None, None));
        let first = places.take("another").unwrap();
        assert_eq!(first.number(), 0);
        assert!(places.take("another").is_none(), "two with one nonce");
        assert_eq!(places.nonce_at(PLACES), None);
    }
}
