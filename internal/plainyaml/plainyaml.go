// Package plainyaml says what is wrong with a YAML file in words of its writer, not of the program that decodes it.
package plainyaml

import (
	"errors"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// Plain returns an error of the YAML decoder on one line, without names of Go types. whole is what the file as a whole is to be, such as "a job file: NAME: VALUE in each line".
// Other errors stay.
func Plain(err error, whole string) error {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return err
	}
	lines := make([]string, len(wrong.Errors))
	for i, line := range wrong.Errors {
		lines[i] = plainLine(strings.Join(strings.Fields(line), " "), whole)
	}
	return errors.New(strings.Join(lines, "; "))
}

// How the decoder says that a value is of another type than the field that it is for, and that there is no field for it.
var (
	otherType    = regexp.MustCompile("^(line \\d+: )cannot unmarshal !!(\\w+) ?(`.*`)? ?into (\\S+)$")
	unknownField = regexp.MustCompile(`field (\S+) not found in type [\w.]+`)
)

// values names the types of YAML, and wanted those of Go.
var (
	values = map[string]string{"str": "the text", "int": "the number", "float": "the number", "bool": "the truth", "null": "nothing", "seq": "a list", "map": "fields", "timestamp": "the date"}
	wanted = map[string]string{"string": "a text", "bool": "true or false", "int": "a whole number", "int8": "a whole number", "int16": "a whole number", "int32": "a whole number", "int64": "a whole number",
		"uint": "a whole number from 0", "uint32": "a whole number from 0", "uint64": "a whole number from 0", "float32": "a number", "float64": "a number", "time.Duration": "a time, such as 30s or 5m"}
)

func plainLine(line, whole string) string {
	m := otherType.FindStringSubmatch(line)
	if m == nil {
		return unknownField.ReplaceAllString(line, "unknown field $1")
	}
	got, known := values[m[2]]
	if !known {
		got = "a value of type " + m[2]
	}
	if m[3] != "" {
		got += " " + strings.Trim(m[3], "`")
	}
	goType := strings.TrimLeft(m[4], "*")
	want, known := wanted[goType]
	switch {
	case known:
	case strings.HasPrefix(goType, "[]"):
		want = "a list"
	case strings.HasPrefix(goType, "map["):
		want = "NAME: VALUE for each"
	default:
		want = whole
	}
	return m[1] + "got " + got + ", want " + want
}
