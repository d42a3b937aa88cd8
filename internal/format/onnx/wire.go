package onnx

import (
	"encoding/binary"
	"math"
)

// message is a serialised protocol buffer. The field numbers used in
// this package are those of onnx.proto, IR version 8.
type message []byte

// The wire types.
const (
	wireVarint  = 0
	wireBytes   = 2
	wireFixed32 = 5
)

func (m *message) key(field, wire int) { *m = binary.AppendUvarint(*m, uint64(field)<<3|uint64(wire)) }

func (m *message) integer(field int, v int64) {
	m.key(field, wireVarint)
	*m = binary.AppendUvarint(*m, uint64(v))
}

func (m *message) float(field int, v float32) {
	m.key(field, wireFixed32)
	*m = binary.LittleEndian.AppendUint32(*m, math.Float32bits(v))
}

func (m *message) bytes(field int, v []byte) {
	m.key(field, wireBytes)
	*m = append(binary.AppendUvarint(*m, uint64(len(v))), v...)
}

func (m *message) text(field int, v string) { m.bytes(field, []byte(v)) }

// Element types: the values of TensorProto.DataType.
const (
	float32s = 1
	uint8s   = 2
	int64s   = 7
	texts    = 8
	bools    = 9
	float64s = 11
)

// tensorProto serialises a constant of the model.
func tensorProto(name string, kind int64, dims []int, raw []byte) message {
	var m message
	for _, d := range dims {
		m.integer(1, int64(d))
	}
	m.integer(2, kind)
	m.text(8, name)
	m.bytes(9, raw)
	return m
}

// valueInfo declares a tensor with a variable batch size on axis 0.
func valueInfo(name string, kind int64, example []int) message {
	var batch, shape, tensor, typ, m message
	batch.text(2, "batch")
	shape.bytes(1, batch)
	for _, d := range example {
		var dim message
		dim.integer(1, int64(d))
		shape.bytes(1, dim)
	}
	tensor.integer(1, kind)
	tensor.bytes(2, shape)
	typ.bytes(1, tensor)
	m.text(1, name)
	m.bytes(2, typ)
	return m
}

// attribute is a named attribute of a node.
type attribute struct {
	name  string
	value any // int, float64, string, []int or []string
}

func (a attribute) proto() message {
	var m message
	m.text(1, a.name)
	switch v := a.value.(type) {
	case int:
		m.integer(3, int64(v))
		m.integer(20, 2)
	case float64:
		m.float(2, float32(v))
		m.integer(20, 1)
	case string:
		m.text(4, v)
		m.integer(20, 3)
	case []int:
		for _, x := range v {
			m.integer(8, int64(x))
		}
		m.integer(20, 7)
	case []string:
		for _, x := range v {
			m.text(9, x)
		}
		m.integer(20, 8)
	default:
		panic("onnx: unsupported attribute type")
	}
	return m
}
