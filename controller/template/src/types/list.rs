//! The code derived from the list of types: `Kind`. The list itself is in `types.rs`.

macro_rules! kinds {
    ($($kind:ident => $info:expr,)* ; $($nameless:ident => $nameless_info:expr,)*) => {
        /// The types that a resource may have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "the list has what each is")]
        pub enum Kind {
            $($kind,)*
            $($nameless,)*
        }

        impl Kind {
            /// The types that a template may name, by name.
            pub const ALL: [Kind; [$(stringify!($kind)),*].len()] = [$(Kind::$kind),*];

            fn info(self) -> &'static TypeInfo {
                match self {
                    $(Kind::$kind => const { &$info },)*
                    $(Kind::$nameless => const { &$nameless_info },)*
                }
            }
        }
    };
}
