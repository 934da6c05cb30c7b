// Package jsonline has the error of JSON lines: files whose lines are JSON objects.
package jsonline

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/edl-go/edl/fault"
)

// Wrong is the error of a line that is not one JSON object. err is what a decoder says of it, nil if the line has another value or more than one. A line that was cut is told
// from others. The error is never io.EOF, which readers take for the end of a file.
func Wrong(err error) *fault.Fault {
	var syntax *json.SyntaxError
	var other *json.UnmarshalTypeError
	got := "a line that is no JSON object"
	switch {
	case err == nil:
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &syntax) && syntax.Error() == "unexpected end of JSON input":
		got, err = "a line that ends within its JSON object", nil
	case errors.As(err, &other) && other.Field == "" && other.Offset > 0:
		got, err = "a line with "+named(other.Value), nil
	default:
		err = errors.New(err.Error())
	}
	return fault.E(fault.Corrupt, fault.Got(got), fault.Want("one object in each line"), fault.Cause(err))
}

// named is a value of JSON, by the name that encoding/json gives its type.
func named(value string) string {
	if value == "array" {
		return "an array"
	}
	return "a " + value
}
