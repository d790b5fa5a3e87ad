// Renders the templates of a Helm chart with Go's text/template, where helm itself is not installed.
//
//	go run helm_render.go CHART <values.json
//
// It has those of Helm's functions that the chart uses.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"
)

func isEmpty(value any) bool {
	switch typed := value.(type) {
	case nil:
		return true
	case string:
		return typed == ""
	case bool:
		return !typed
	case float64:
		return typed == 0
	case map[string]any:
		return len(typed) == 0
	case []any:
		return len(typed) == 0
	}
	return false
}

// toYaml writes a line for each item of a map or a list; below that it writes JSON, which is YAML too.
func toYaml(value any) (string, error) {
	lines := []string{}
	add := func(start string, item any) error {
		text, err := json.Marshal(item)
		lines = append(lines, start+string(text))
		return err
	}
	switch typed := value.(type) {
	case map[string]any:
		for key, item := range typed {
			if err := add(fmt.Sprintf("%q: ", key), item); err != nil {
				return "", err
			}
		}
		sort.Strings(lines)
	case []any:
		for _, item := range typed {
			if err := add("- ", item); err != nil {
				return "", err
			}
		}
	}
	if len(lines) == 0 {
		err := add("", value)
		return lines[0], err
	}
	return strings.Join(lines, "\n"), nil
}

func indent(width int, text string) string {
	space := strings.Repeat(" ", width)
	return space + strings.ReplaceAll(text, "\n", "\n"+space)
}

// files are those of the chart's folder.
type files string

func (folder files) Get(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(string(folder), name))
	return string(text), err
}

func main() {
	var data any
	if err := json.NewDecoder(os.Stdin).Decode(&data); err != nil {
		fail(err)
	}
	data.(map[string]any)["Files"] = files(os.Args[1])
	chart := template.New("chart").Option("missingkey=error")
	chart.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var text strings.Builder
			err := chart.ExecuteTemplate(&text, name, data)
			return text.String(), err
		},
		"toYaml":     toYaml,
		"nindent":    func(width int, text string) string { return "\n" + indent(width, text) },
		"quote":      func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
		"contains":   func(part, text string) bool { return strings.Contains(text, part) },
		"trimSuffix": func(end, text string) string { return strings.TrimSuffix(text, end) },
		"trimPrefix": func(start, text string) string { return strings.TrimPrefix(text, start) },
		"fail":       func(message string) (string, error) { return "", errors.New(message) },
		"sha256sum":  func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) },
		"default": func(other, value any) any {
			if isEmpty(value) {
				return other
			}
			return value
		},
		"trunc": func(length int, text string) string {
			if len(text) > length {
				return text[:length]
			}
			return text
		},
		"list": func(values ...any) []any { return values },
		"int":  func(number float64) int { return int(number) },
		"add": func(numbers ...float64) int {
			sum := 0.0
			for _, number := range numbers {
				sum += number
			}
			return int(sum)
		},
	})
	templates, err := filepath.Glob(filepath.Join(os.Args[1], "templates", "*"))
	if err != nil {
		fail(err)
	}
	for _, file := range templates {
		text, err := os.ReadFile(file)
		if err != nil {
			fail(err)
		}
		if _, err := chart.New(filepath.Base(file)).Parse(string(text)); err != nil {
			fail(err)
		}
	}
	for _, file := range templates {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") {
			continue
		}
		fmt.Printf("---\n# Source: %s\n", name)
		var text strings.Builder
		if err := chart.ExecuteTemplate(&text, name, data); err != nil {
			fail(err)
		}
		if name == "NOTES.txt" {
			text.Reset()
		}
		fmt.Println(text.String())
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
