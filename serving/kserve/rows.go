package kserve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/tensor"
)

// rowBytes is how much memory a byte of a request of rows may take while its cells are made, at most.
const rowBytes = 8

// A rowReader makes inputs of rows of a table, as records for training were made of them.
type rowReader struct {
	schema  *schema.Schema
	columns []string // that rows have when the model is used
	encoder *schema.Encoder
}

func newRowReader(s *schema.Schema) (*rowReader, error) {
	r := &rowReader{schema: s}
	for i := range s.Columns {
		if c := &s.Columns[i]; c.Role == "" && c.Type != schema.Skip {
			r.columns = append(r.columns, c.Name)
		}
	}
	var err error
	r.encoder, err = schema.NewEncoder(s, r.columns, true)
	return r, err
}

// serveRows answers a request of rows, {"rows": [{"age": 39, "city": "Bern"}]}, as infer does one of inputs. "id" and "outputs" mean the same.
func (s *Server) serveRows(w http.ResponseWriter, q *http.Request) {
	began := time.Now()
	err := s.withBody(q, rowBytes, func(body []byte) error {
		schema := s.model.Schema()
		r, err := s.rows.read(body, &schema)
		if err != nil {
			return err
		}
		return s.predict(w, q, r, &schema)
	})
	if err != nil {
		refuse(w, err)
	}
	s.metrics.answered("http", err, time.Since(began))
}

// read reads the body of a request.
func (r *rowReader) read(body []byte, model *serving.Schema) (*request, error) {
	var asked struct {
		ID      string                       `json:"id"`
		Rows    []map[string]json.RawMessage `json:"rows"`
		Outputs []struct {
			Name string `json:"name"`
		} `json:"outputs"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&asked); err != nil {
		return nil, fault.E(fault.InvalidArgument, fault.Got("a request that is no JSON object with rows"), fault.Want(`{"rows": [{"column": value}]}`), fault.Cause(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fault.E(fault.InvalidArgument, fault.Got("more behind the object"), fault.Want("the end"))
	}
	if len(asked.Rows) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.At("rows"), fault.Got("no row"), fault.Want("at least one"))
	}
	rows := make([]schema.Row, len(asked.Rows))
	for i, object := range asked.Rows {
		row, err := r.schema.RowOf(r.columns, object)
		row.Place = fmt.Sprintf("row %d", i)
		if err != nil {
			return nil, fault.Wrap(fault.InvalidArgument, row.Place, err)
		}
		rows[i] = row
	}
	tensors, err := r.encoder.Batch(rows)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, "rows", err)
	}
	request := &request{id: asked.ID, inputs: map[string]*tensor.Tensor{}}
	for _, o := range asked.Outputs {
		request.outputs = append(request.outputs, o.Name)
	}
	made := map[string]*tensor.Tensor{}
	for i, f := range r.encoder.Fields() {
		made[f.Name] = tensors[i]
	}
	for _, f := range model.Inputs { // what the model does not need is left out
		t := made[f.Name]
		if t == nil {
			return nil, fault.E(fault.Internal, fault.Var(f.Name), fault.Got("an input of the model that is no field of the schema"), fault.Want("the schema that the model was trained with"))
		}
		request.inputs[f.Name] = t
	}
	return request, request.checkOutputs(model)
}
