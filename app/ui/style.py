"""The few rules of style that Streamlit has no setting for; they hold in light and dark."""

__all__ = ["STYLE"]

STYLE = """<style>
.st-key-ns_hidden, .st-key-ns_top { display: none; }
[data-testid="stMainBlockContainer"] { padding-top: 3.5rem; }
[data-testid="stMain"] h1 { font-size: 2rem; padding: .6rem 0; }
@media (max-width: 640px) {
  [data-testid="stMain"] h1 { font-size: 1.4rem; padding: 0; }
  .st-key-ns_ask, .st-key-ns_found { flex-wrap: nowrap; }
  .st-key-ns_ask [data-testid="stTextInput"], .st-key-ns_found > :first-child { min-width: 0; }
}
.ns-card { overflow-wrap: anywhere; line-height: 1.55; }
.ns-card .ns-head { display: flex; gap: .15rem .6rem; align-items: baseline; flex-wrap: wrap; }
.ns-card .ns-rank { opacity: .6; min-width: 1.2rem; font-variant-numeric: tabular-nums; }
.ns-card .ns-title { font-weight: 600; font-size: 1.05rem; flex: 1 1 14rem; }
.ns-card .ns-score { font-size: .85rem; opacity: .8; font-variant-numeric: tabular-nums; }
[data-testid="stPageLink"] a:focus-visible, [data-testid="stSidebarNavLink"]:focus-visible {
  outline: 2px solid #3B82F6; outline-offset: -2px; }
.ns-card .ns-text { margin-top: .3rem; white-space: pre-line; max-width: 75em; }
.ns-card .ns-meta { margin-top: .35rem; font-size: .85rem; opacity: .75; }
.ns-card mark { color: inherit; border-radius: .2rem; padding: .05rem .05rem; background: transparent; }
.ns-card u { text-decoration: underline; text-decoration-thickness: 1px; text-underline-offset: .2em; }
.ns-card .ns-best { border-bottom: 2px solid rgba(64, 145, 108, .9); padding-bottom: 1px; }
.ns-card .ns-best u { text-underline-offset: .1em; }
.ns-card .ns-rest summary { cursor: pointer; font-size: .9rem; opacity: .8; margin-top: .2rem; }
.ns-card .ns-rest > div { white-space: pre-line; max-width: 75em; }
.ns-card .ns-passage { border-left: 3px solid rgba(64, 145, 108, .9); padding-left: .5rem; display: block; }
.ns-liked { overflow-wrap: anywhere; line-height: 1.55; }
.ns-document { scroll-margin-top: 4.5rem; }
.ns-document .ns-passage { background: rgba(64, 145, 108, .14); }
:has(> .st-key-ns_turning) { position: sticky; bottom: 0; z-index: 1; backdrop-filter: blur(12px); }
.ns-versus { display: grid; grid-template-columns: 1fr minmax(2.5rem, 9rem) 1fr; line-height: 1.35; }
.ns-versus .ns-side-name { font-weight: 600; padding-bottom: .3rem; }
.ns-versus .ns-list { margin: 0; padding: 0; list-style: none; min-width: 0; }
.ns-versus .ns-lines { width: 100%; }
.ns-versus .ns-item { display: flex; gap: .5rem; align-items: center; padding: 0 .4rem; margin: 0;
  border-top: 1px solid rgba(128, 136, 148, .3); overflow: hidden; }
.ns-versus .ns-lone { background: rgba(128, 136, 148, .12); }
.ns-versus .ns-rank { opacity: .6; min-width: 1.3rem; font-variant-numeric: tabular-nums; }
.ns-versus .ns-what { flex: 1; min-width: 0; font-size: .85rem; overflow: hidden; overflow-wrap: anywhere;
  display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; }
.ns-versus .ns-change { font-size: .85rem; white-space: nowrap; font-variant-numeric: tabular-nums; }
@media (max-width: 640px) {
  .ns-versus { grid-template-columns: 1fr 2.5rem 1fr; }
  .ns-versus .ns-item { gap: .25rem; padding: 0 .1rem; }
}
</style>"""
