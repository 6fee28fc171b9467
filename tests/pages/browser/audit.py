"""What a page must be for everyone: contrast, and names of controls."""

from __future__ import annotations

from typing import Any

from pages.browser.conftest import Browser

# WCAG 2.1 AA: 4.5 to 1 for text, 3 to 1 for large text (24 px, or 18.66 px bold).
CONTRAST = """
    const parse = (text) => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
    const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
    const part = (value) => { const v = value / 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    const back = (node) => {
        const layers = [];
        for (let at = node; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
        return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
    };
    const faded = (node) => { let share = 1; for (let at = node; at; at = at.parentElement) share *= getComputedStyle(at).opacity; return share; };
    const problems = new Map();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const own = node.parentElement;
        if (!node.data.trim() || !own.getClientRects().length || own.closest('script, noscript, svg, [disabled]')) continue;
        const style = getComputedStyle(own), below = back(own), [r, g, b, a] = parse(style.color);
        if (style.visibility === 'hidden') continue;
        const ink = over([r, g, b, a * faded(own)], below);
        const [high, low] = [light(ink), light(below)].sort((x, y) => y - x);
        const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
        const ratio = (high + 0.05) / (low + 0.05);
        if (ratio < (large ? 3 : 4.5)) problems.set(`${own.tagName}.${own.className}: ${ratio.toFixed(2)}`, node.data.trim().slice(0, 30));
    }
    return [...problems];
"""
NAMES = """
    const controls = 'button, input, select, textarea, summary, a[href], canvas, [tabindex], [role=button], [role=tab], svg[role]';
    const named = (each) => (each.getAttribute('aria-label') || each.textContent || each.title
        || [...(each.labels ?? [])].map((label) => label.textContent).join('')
        || (each.getAttribute('aria-labelledby') ?? '').split(' ').map((id) => document.getElementById(id)?.textContent ?? '').join('')).trim();
    return [...document.querySelectorAll(controls)].filter((each) => each.getClientRects().length && !each.closest('[aria-hidden=true]') && !named(each))
        .map((each) => each.outerHTML.slice(0, 120));
"""


def faint_texts(browser: Browser) -> list[Any]:
    """Visible texts with too little contrast, by element."""
    return list(browser.run(CONTRAST))


def nameless(browser: Browser) -> list[str]:
    """Visible controls that a screen reader could not name."""
    return list(browser.run(NAMES))
