"""The few rules of style that Streamlit has no setting for; they hold in light and dark."""

__all__ = ["STYLE"]

STYLE = """<style>
.ns-card { overflow-wrap: anywhere; line-height: 1.55; }
.ns-card .ns-head { display: flex; gap: .6rem; align-items: baseline; flex-wrap: wrap; }
.ns-card .ns-rank { opacity: .6; min-width: 1.6rem; }
.ns-card .ns-title { font-weight: 600; font-size: 1.05rem; }
.ns-card .ns-text { margin-top: .3rem; white-space: pre-line; }
.ns-card .ns-meta { margin-top: .35rem; font-size: .85rem; opacity: .75; }
.ns-card mark { color: inherit; border-radius: .2rem; padding: 0 .05rem; background: transparent; }
.ns-card .ns-best { border-bottom: 2px solid rgba(64, 145, 108, .9); }
</style>"""
