export { EditorState, Compartment, StateEffect, StateField } from "@codemirror/state";
export {
  EditorView, keymap, lineNumbers, highlightActiveLine, highlightSpecialChars, drawSelection, placeholder, tooltips, Decoration,
} from "@codemirror/view";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export { syntaxHighlighting, HighlightStyle, bracketMatching } from "@codemirror/language";
export { autocompletion, completionKeymap, closeBrackets, startCompletion, acceptCompletion } from "@codemirror/autocomplete";
export { setDiagnostics, lintGutter, lintKeymap } from "@codemirror/lint";
export { SQLDialect, sql } from "@codemirror/lang-sql";
export { tags } from "@lezer/highlight";
