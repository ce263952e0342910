//! Finds a cycle in what resources need.

use crate::error::cut;

/// The first cycle in order of names, beginning with its first name. Without recursion: a chain may be
/// 100,000 long.
pub(crate) fn find<'a>(count: usize, needs: impl Fn(usize) -> &'a [u32]) -> Option<Vec<u32>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; count];
    for start in 0..count {
        // Each level: a resource, and how many of its dependencies have been visited.
        let mut stack = vec![(start, 0)];
        while let Some((at, next)) = stack.last_mut() {
            let at = *at;
            if *next == 0 {
                if marks[at] == Mark::Done {
                    stack.pop();
                    continue;
                }
                marks[at] = Mark::Open;
            }
            let Some(&needed) = needs(at).get(*next) else {
                marks[at] = Mark::Done;
                stack.pop();
                continue;
            };
            *next += 1;
            match marks[needed as usize] {
                Mark::New => stack.push((needed as usize, 0)),
                Mark::Done => {}
                Mark::Open => {
                    let from = stack.iter().position(|(at, _)| *at == needed as usize)?;
                    let mut cycle: Vec<u32> =
                        stack[from..].iter().filter_map(|(at, _)| u32::try_from(*at).ok()).collect();
                    let least = cycle.iter().enumerate().min_by_key(|(_, at)| **at).map_or(0, |(i, _)| i);
                    cycle.rotate_left(least);
                    return Some(cycle);
                }
            }
        }
    }
    None
}

/// The cycle in the form `a -> b -> a`.
pub(crate) fn shown<'a>(cycle: &[u32], name: impl Fn(u32) -> &'a str) -> String {
    /// Names shown of a long cycle, from either end.
    const SHOWN: usize = 8;
    let mut names: Vec<String> = cycle.iter().map(|index| cut(name(*index)).to_owned()).collect();
    if names.len() > 2 * SHOWN + 1 {
        let left_out = names.len() - 2 * SHOWN;
        names.splice(SHOWN..SHOWN + left_out, [format!("… {left_out} more …")]);
    }
    format!("{} -> {}", names.join(" -> "), cut(name(cycle[0])))
}
