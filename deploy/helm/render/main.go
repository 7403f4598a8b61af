// Renders the chart beside this folder where there is no helm: Go's own templates with Sprig's functions, and the few
// that helm adds (include, toYaml, toJson). Values are JSON on stdin, {"Values": .., "Chart": .., "Release": ..}; the
// documents go to stdout. Knows no hooks, no dependencies and no `lookup`: the chart uses none of them.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
)

func main() {
	if err := render(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func render(folder string) error {
	var data map[string]interface{}
	if err := json.NewDecoder(os.Stdin).Decode(&data); err != nil {
		return err
	}
	data["Template"] = map[string]interface{}{"BasePath": "templates"}
	root := template.New("chart").Option("missingkey=error")
	functions := sprig.TxtFuncMap()
	functions["include"] = func(name string, given interface{}) (string, error) {
		var out bytes.Buffer
		err := root.ExecuteTemplate(&out, name, given)
		return out.String(), err
	}
	// Flow style: JSON is YAML.
	encode := func(value interface{}) (string, error) {
		out, err := json.Marshal(value)
		return string(out), err
	}
	functions["toYaml"], functions["toJson"] = encode, encode
	root.Funcs(functions)
	files, err := filepath.Glob(filepath.Join(folder, "templates", "*"))
	if err != nil {
		return err
	}
	sort.Strings(files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := root.New("templates/" + filepath.Base(file)).Parse(string(text)); err != nil {
			return err
		}
	}
	for _, file := range files {
		if !strings.HasSuffix(file, ".yaml") {
			continue
		}
		var out bytes.Buffer
		name := "templates/" + filepath.Base(file)
		if err := root.ExecuteTemplate(&out, name, data); err != nil {
			return err
		}
		if text := strings.TrimSpace(out.String()); text != "" {
			fmt.Printf("---\n# Source: %s\n%s\n", name, text)
		}
	}
	return nil
}
