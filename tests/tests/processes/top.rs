//! `muster top` on a terminal, and where there is none.

use muster_tests::site::Site;

use crate::terminal::Terminal;

#[test]
fn top_shows_the_site_until_q() {
    let site = Site::start();
    let _web1 = site.join("web-1");
    let template = "heat_template_version: 2018-08-31\nresources:\n  \
                    slow: {type: Muster::Dummy, properties: {node: web-1, seconds: 3600}}\n";
    site.ok(&["stack", "create", "long", "-t", &site.file(template)]);
    let mut terminal = Terminal::start(&site, "top");
    terminal.until_shown("1 online");
    terminal.until_shown("web-1");
    terminal.until_shown("long");
    terminal.press("?");
    terminal.until_shown("Ctrl-C    quit");
    terminal.press("?\r");
    // The stack that is under way, once it is known to be.
    terminal.until_shown("RESOURCE");
    terminal.until_shown("slow");
    terminal.press("q");
    let (status, shown) = terminal.finish();
    assert_eq!(status, 0, "{shown}");
    // Out of the alternate screen, with lines again.
    assert!(shown.contains("\u{1b}[?1049h") && shown.contains("\u{1b}[?1049l"), "{shown:?}");
    assert!(shown.trim_end().ends_with(" icanon"), "{shown:?}");

    site.muster(&["top"]).refused(2, &["needs a terminal", "'muster status'"]);
    site.muster(&["top", "-o", "json"]).refused(2, &["'muster status -o json'"]);
}

#[test]
fn top_gives_the_terminal_back_when_it_is_ended() {
    let site = Site::start();
    let terminal = Terminal::start(&site, "top");
    terminal.until_shown("0 nodes");
    terminal.signal("TERM");
    let (status, shown) = terminal.finish();
    assert_eq!(status, 0, "{shown}");
    assert!(shown.trim_end().ends_with(" icanon"), "{shown:?}");
}

/// Colours of the foreground or of the background; other attributes are allowed.
fn has_colour(shown: &str) -> bool {
    let sequences = shown.split("\u{1b}[").skip(1);
    let parts = sequences.filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';')?;
        rest[end..]
            .starts_with('m')
            .then(|| rest[..end].split(';').filter_map(|part| part.parse::<u16>().ok()))
    });
    parts.flatten().any(|part| matches!(part, 30..=38 | 40..=48 | 90..=97 | 100..=107))
}

#[test]
fn top_has_no_colours_where_nobody_wants_them() {
    let site = Site::start();
    let web1 = site.join("web-1");
    drop(web1);
    site.until_node("web-1", "offline");
    for (variables, coloured) in [(&[][..], true), (&[("NO_COLOR", "1")], false), (&[("NO_COLOR", "")], true)]
    {
        let mut terminal = Terminal::with(&site, "top", variables);
        terminal.until_shown("1 offline");
        terminal.press("q");
        let (status, shown) = terminal.finish();
        assert_eq!((status, has_colour(&shown)), (0, coloured), "{variables:?} {shown:?}");
    }
}
