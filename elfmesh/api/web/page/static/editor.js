// The editor of the console: CodeMirror in a shadow tree, where its styles need no exception from the page's policy.

import * as cm from "./vendor/codemirror.js";
import { show } from "./text.js";

const THEME = cm.EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--field)", border: "1px solid var(--edge)", borderRadius: "4px", fontSize: "13px" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", minHeight: "220px", maxHeight: "60vh", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--faint)", borderRight: "1px solid var(--edge)" },
  ".cm-activeLine": { backgroundColor: "var(--hover)" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--ink)", border: "1px solid var(--edge)" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "inherit", opacity: "0.85", fontStyle: "normal" },
  ".cm-lint-marker-error": { content: '""', width: "8px", height: "8px", marginTop: "5px", borderRadius: "50%", backgroundColor: "var(--bad)" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textDecorationSkipInk: "none" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--select)" },
});

const COLOURS = cm.HighlightStyle.define([
  { tag: cm.tags.keyword, color: "var(--syntax-word)", fontWeight: "600" },
  { tag: [cm.tags.string, cm.tags.special(cm.tags.string)], color: "var(--syntax-text)" },
  { tag: [cm.tags.number, cm.tags.bool, cm.tags.null], color: "var(--syntax-number)" },
  { tag: cm.tags.comment, color: "var(--faint)", fontStyle: "italic" },
  { tag: [cm.tags.standard(cm.tags.name), cm.tags.function(cm.tags.name)], color: "var(--syntax-name)" },
]);

/**
 * @param host the element that it fills
 * @param options.label for a screen reader
 * @param options.language what /v1/language said
 * @param options.columns () -> names of columns that are known now
 * @param options.changed called with the text after a change
 * @param options.run called for Ctrl-Enter
 */
export function makeEditor(host, { label, language, columns, changed, run }) {
  const root = host.attachShadow({ mode: "open" });
  const words = language.keywords.join(" ").toLowerCase().replace("window_start window_end", "");
  const dialect = cm.SQLDialect.define({
    keywords: words, builtin: language.functions.map((each) => each.name).filter((name) => !words.split(" ").includes(name)).join(" "), backslashEscapes: true, identifierQuotes: "`",
  });
  const fixed = [
    ...language.keywords.map((word) => ({ label: word, type: "keyword", boost: -1 })),
    ...language.functions.map((each) => ({ label: each.name, detail: each.signature.slice(each.name.length), type: "function", info: each.kind, apply: `${each.name}(` })),
    ...language.streams.map((each) => ({ label: each.stream, detail: `stream, ${each.formats.join(", ")}, ${each.agents.length} agents`, type: "class", boost: 3 })),
    ...language.jobs.map((job) => ({ label: job.replace("/", "."), detail: "job", type: "class", boost: 1 })),
  ];
  const complete = (context) => {
    const word = context.matchBefore(/[\w.]+/);
    if (!word && !context.explicit) return null;
    const known = columns().map((name) => ({ label: show(name), type: "property", detail: "column", boost: 2 }));
    return { from: word ? word.from : context.pos, options: [...known, ...fixed], validFor: /^[\w.]*$/ };
  };
  const listener = cm.EditorView.updateListener.of((update) => update.docChanged && changed(update.state.doc.toString()));
  const view = new cm.EditorView({
    parent: root, root,
    state: cm.EditorState.create({
      doc: "",
      extensions: [
        cm.lineNumbers(), cm.history(), cm.drawSelection(), cm.bracketMatching(), cm.closeBrackets(), cm.highlightActiveLine(),
        cm.highlightSpecialChars(), cm.sql({ dialect, upperCaseKeywords: true }).language, cm.syntaxHighlighting(COLOURS),
        cm.autocompletion({ override: [complete], maxRenderedOptions: 60 }), cm.lintGutter(), THEME, listener,
        cm.EditorView.lineWrapping, cm.EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", autocapitalize: "off" }),
        cm.keymap.of([
          { key: "Mod-Enter", run: () => (run(), true) },
          ...cm.completionKeymap, ...cm.defaultKeymap, ...cm.historyKeymap, ...cm.lintKeymap,
        ]),
      ],
    }),
  });
  return {
    view,
    get text() {
      return view.state.doc.toString();
    },
    set text(text) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
    /** Mark the word at a line and a column, or nothing for null. */
    mark(error) {
      const found = error ? [{ ...place(view.state.doc, error), severity: "error", message: show(`${error.error} ${error.hint}`) }] : [];
      view.dispatch(cm.setDiagnostics(view.state, found));
    },
    /** Put the cursor where an error is. */
    go(error) {
      const { from } = place(view.state.doc, error);
      view.dispatch({ selection: { anchor: from }, scrollIntoView: true });
      view.focus();
    },
    end: () => view.destroy(),
  };
}

/** The range of the word at a 1-based line and column; columns count characters, the editor counts UTF-16. */
function place(doc, { line, column }) {
  const at = doc.line(Math.min(Math.max(line || 1, 1), doc.lines));
  const before = [...at.text].slice(0, Math.max((column || 1) - 1, 0)).join("").length;
  const from = Math.min(at.from + before, at.to);
  const word = /^(\w[\w.]*|\S)/.exec(at.text.slice(from - at.from));
  if (word) return { from, to: from + word[0].length };
  return from > at.from ? { from: from - 1, to: from } : { from, to: Math.min(from + 1, doc.length) };
}
