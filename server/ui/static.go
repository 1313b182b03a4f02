package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
)

//go:embed static
var files embed.FS

// assets are the files of static/ with the types of their contents.
var assets = map[string]string{"style.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"}

// version changes with the files of static/: browsers keep those that they have.
var version = func() string {
	h := sha256.New()
	for _, name := range []string{"style.css", "page.js", "icon.svg"} {
		b, _ := files.ReadFile("static/" + name) // it is embedded
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}()

// static serves a file of static/.
func (p *Page) static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	kind, known := assets[name]
	if !known {
		p.fail(w, r, nil, http.StatusNotFound, "There is no such file.")
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeFileFS(w, r, files, "static/"+name)
}
