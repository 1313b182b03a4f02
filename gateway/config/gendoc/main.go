// Command gendoc collects the doc comments of the configuration's fields from the source.
// The program uses them in the schema for editors and in the reference. It is run by go
// generate and is not part of the program.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// module is the path under which the packages are imported.
const module = "svc"

func main() {
	root := flag.String("root", ".", "the directory of go.mod")
	out := flag.String("out", "", "the file to write")
	flag.Parse()
	data, err := collectAll(*root)
	if err == nil {
		err = os.WriteFile(*out, data, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gendoc:", err)
		os.Exit(1)
	}
}

// collectAll returns the comments of every field with a yaml tag below
// root/gateway, as a JSON object from package.Type.Field to text.
func collectAll(root string) ([]byte, error) {
	comments := map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, "gateway"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		collect(comments, module+"/"+filepath.ToSlash(dir), file)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(comments); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func collect(comments map[string]string, pkg string, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		st, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		for _, f := range st.Fields.List {
			if f.Tag == nil || f.Doc == nil {
				continue
			}
			if _, ok := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Lookup("yaml"); !ok {
				continue
			}
			for _, name := range f.Names {
				comments[pkg+"."+spec.Name.Name+"."+name.Name] = text(f.Doc, name.Name)
			}
		}
		return true
	})
}

// text joins a comment to one paragraph without the Go name at its start: "Listen is the
// host:port" becomes "The host:port".
func text(doc *ast.CommentGroup, name string) string {
	s := strings.Join(strings.Fields(doc.Text()), " ")
	rest, ok := strings.CutPrefix(s, name+" ")
	if !ok {
		return s
	}
	for _, verb := range []string{"is ", "are "} {
		rest = strings.TrimPrefix(rest, verb)
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}
