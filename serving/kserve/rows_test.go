package kserve_test

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/serving/kserve"
	"github.com/edl-go/edl/tensor"
)

// Rows of a table are encoded by the schema that the records for training had, and answered as inputs are. What is wrong names the row and the column.
func TestRowsOfATable(t *testing.T) {
	m := layers.NewModel()
	numbers := layers.Scale(layers.Data(m, "numbers", layers.Dims(2)), 1, 0, layers.Name("number"))
	city := layers.Scale(layers.Data(m, "city", layers.Dims(1), layers.DType(tensor.Int64)), 1, 0, layers.Name("place"))
	tags := layers.Scale(layers.Data(m, "tags", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1)), 1, 0, layers.Name("marks"))
	s, err := schema.Read(strings.NewReader(`version: 1
missing: ["", "?"]
columns:
- {name: age, field: numbers, type: number, scale: standard, missing: mean, statistics: {values: 3, mean: 40, deviation: 10}}
- {name: height, field: numbers, type: number}
- {name: city, type: category, vocabulary: [Bern, Rome]}
- {name: tags, type: bucket, boundaries: [10, 20]}
- {name: line, type: skip}
- {name: answer, type: category, role: label, vocabulary: ["no", "yes"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	s.Columns[3] = schema.Column{Name: "tags", Type: schema.Category, Vocabulary: []string{"a", "b"}, Separator: "|"}
	at := serveFrom(t, exported(t, m, numbers, city, tags), kserve.Config{Rows: func() (*schema.Schema, error) { return s, nil }, MaxRequest: 1 << 10})
	for _, c := range []struct {
		body string
		code int
		want string
	}{
		{`{"id":"q","rows":[{"age":50,"height":1.5,"city":"Rome","tags":"b|a"},{"age":"?","height":"2","city":"Oslo","tags":[],"line":7,"answer":"yes"}]}`, 200,
			`"id":"q","outputs":[{"name":"number","datatype":"FP32","shape":[2,2],"data":[1,1.5,0,2]},{"name":"place","datatype":"INT64","shape":[2,1],"data":[2,0]},` +
				`{"name":"marks","datatype":"INT64","shape":[2,1],"parameters":{"lod":"0,2,2"},"data":[2,1]}]}`},
		{`{"rows":[{"height":1}],"outputs":[{"name":"place"}]}`, 200, `"outputs":[{"name":"place","datatype":"INT64","shape":[1,1],"data":[0]}]}`},
		{`{"rows":[{"height":1},{"age":50}]}`, 400, `row 1, variable \"height\": corrupt data: got no value`},
		{`{"rows":[{"height":1,"agee":50}]}`, 400, `did you mean \"age\"`},
		{`{"rows":[{"height":{}}]}`, 400, `row 0: variable \"height\": corrupt data: got an object`},
		{`{"rows":[{"height":1e300}]}`, 400, `fits into float32`},
		{`{"rows":[{"height":1}],"outputs":[{"name":"plac"}]}`, 400, `did you mean \"place\"`},
		{`{"rows":[{"height":1}],"outputs":[{"name":"place"},{"name":"marks"},{"name":"place"}]}`, 400, `got the output again`},
		{`{"rows":[]}`, 400, `got no row`},
		{`{"rows":[1]}`, 400, `no JSON object with rows`},
		{`{"rows":[{}]} {}`, 400, `got more behind the object`},
		{strings.Repeat(" ", 2<<10), 413, `at most 1024`},
	} {
		if code, answer := at.ask(t, "/v2/models/m/rows", c.body); code != c.code || !strings.Contains(answer, c.want) {
			t.Errorf("%s: %d %s, want %d %s", c.body, code, answer, c.code, c.want)
		}
	}
	if code, answer := serve(t, kserve.Config{}).ask(t, "/v2/models/m/rows", `{"rows":[{}]}`); code != 404 || !strings.Contains(answer, "--schema") {
		t.Errorf("without a schema: %d %s", code, answer)
	}
	s.Columns = s.Columns[1:] // another schema than that of the model
	dir := exported(t, m, numbers, city, tags)
	_, err = kserve.New(kserve.Config{Name: "m", Rows: func() (*schema.Schema, error) { return s, nil }}, func(own ...serving.Option) (*serving.Model, error) { return serving.Open(dir, own...) })
	if err == nil || !strings.Contains(err.Error(), `schema, variable "numbers": invalid argument: got a field float32[1] with 0 LoD levels, want float32[2] with 0`) {
		t.Errorf("another schema: %v", err)
	}
}

// Clients that say that they send much, and send nothing, keep nobody out.
func TestSlowClients(t *testing.T) {
	s := serve(t, kserve.Config{MaxRequest: 1 << 10})
	for range 80 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.http, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, "POST /v2/models/m/infer HTTP/1.1\r\nHost: m\r\nContent-Length: 1024\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 { // some of them after the server has read what the others have sent
		if code, answer := s.ask(t, "/v2/models/m/infer", inputs(inputX, inputN, inputW)); code != 200 {
			t.Fatalf("%d %s", code, answer)
		}
	}
}
