//! The code derived from the list of types: `Spec`, its wire form, and the operations on a state of any type.

macro_rules! resource_types {
    ($($name:ident($type:ty $(as $wire:ty)?) $(since $reads:literal)?),* $(,)?) => {
        /// Desired state by resource type.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "each type says it itself")]
        pub enum Spec {
            $($name($type),)*
        }

        /// A desired state as version 1 of the wire has it.
        #[derive(Serialize, Deserialize)]
        #[expect(missing_docs, reason = "each type says it itself")]
        pub enum SpecV1 {
            $($name(resource_types!(@wire $type $(as $wire)?)),)*
        }

        $(impl From<$type> for Spec {
            fn from(state: $type) -> Self {
                Self::$name(state)
            }
        })*

        impl From<&Spec> for SpecV1 {
            fn from(spec: &Spec) -> Self {
                match spec {
                    $(Spec::$name(state) => Self::$name(state.clone().into()),)*
                }
            }
        }

        impl TryFrom<SpecV1> for Spec {
            type Error = &'static str;

            fn try_from(wire: SpecV1) -> Result<Self, Self::Error> {
                let spec = match wire {
                    $(SpecV1::$name(state) => Self::$name(state.into()),)*
                };
                spec.check_bounds().map(|()| spec)
            }
        }

        impl Spec {
            /// Whether a resource in state `self` must be replaced to become `next`.
            pub fn needs_replacement(&self, next: &Spec) -> bool {
                match (self, next) {
                    $((Spec::$name(old), Spec::$name(new)) => old.needs_replacement(new),)*
                    (_, _) => true,
                }
            }
        }

        impl Spec {
            /// The wire form that an agent must read to be given a state of this type, as in
            /// [`READS`](crate::wire::READS).
            pub fn reads(&self) -> u32 {
                let of_type = match self {
                    $(Spec::$name(_) => resource_types!(@since $($reads)?),)*
                };
                of_type.max(self.reads_for_content())
            }
        }

        impl Deref for Spec {
            type Target = dyn DesiredState;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Spec::$name(state) => state,)*
                }
            }
        }

        impl DerefMut for Spec {
            fn deref_mut(&mut self) -> &mut Self::Target {
                match self {
                    $(Spec::$name(state) => state,)*
                }
            }
        }
    };
    (@since) => { 0 };
    (@since $reads:literal) => { $reads };
    (@wire $type:ty) => { $type };
    (@wire $type:ty as $wire:ty) => { $wire };
}
