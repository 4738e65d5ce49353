package experiment

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
)

// encodeResult returns a binary form of v from which Decode restores it exactly: floats bit by bit, nil slices, maps and
// pointers as distinct from empty ones. Types with interfaces, functions or channels are rejected, and so are
// unexported fields: nothing is lost silently. A field with the tag `cells:"-"` is left out, to be set by the caller.
// Pointers to the same value become pointers to copies of it.
func encodeResult(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := encode(&b, reflect.ValueOf(v)); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return b.Bytes(), nil
}

// decodeResult sets *v to the value of which Encode has returned data. *v must be a zero value of the same type.
func decodeResult(data []byte, v any) error {
	r := bytes.NewReader(data)
	err := decode(r, reflect.ValueOf(v).Elem())
	if err == nil && r.Len() > 0 {
		err = fmt.Errorf("%d bytes too many", r.Len())
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	return nil
}

var binaryMarshaler = reflect.TypeFor[encoding.BinaryMarshaler]()

// fields calls f for each field to be encoded.
func fields(v reflect.Value, f func(reflect.Value) error) error {
	t := v.Type()
	for i := range t.NumField() {
		field := t.Field(i)
		switch {
		case field.Tag.Get("cells") == "-":
			continue
		case !field.IsExported():
			return fmt.Errorf("%v: the field %s is not exported", t, field.Name)
		}
		if err := f(v.Field(i)); err != nil {
			return err
		}
	}
	return nil
}

func encode(b *bytes.Buffer, v reflect.Value) error {
	number := func(n uint64) { b.Write(binary.AppendUvarint(nil, n)) }
	if v.Type().Implements(binaryMarshaler) && v.Kind() == reflect.Struct { // such as time.Time
		data, err := v.Interface().(encoding.BinaryMarshaler).MarshalBinary()
		number(uint64(len(data)))
		b.Write(data)
		return err
	}
	switch v.Kind() {
	case reflect.Bool:
		number(map[bool]uint64{true: 1}[v.Bool()])
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		b.Write(binary.AppendVarint(nil, v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		number(v.Uint())
	case reflect.Float32, reflect.Float64:
		b.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(v.Float())))
	case reflect.String:
		number(uint64(v.Len()))
		b.WriteString(v.String())
	case reflect.Array:
		return encodeList(b, v)
	case reflect.Struct:
		return fields(v, func(f reflect.Value) error { return encode(b, f) })
	case reflect.Slice, reflect.Map, reflect.Pointer:
		if v.IsNil() {
			number(0)
			return nil
		}
		if v.Kind() == reflect.Pointer {
			number(1)
			return encode(b, v.Elem())
		}
		number(uint64(v.Len()) + 1)
		if v.Kind() == reflect.Slice {
			return encodeList(b, v)
		}
		for it := v.MapRange(); it.Next(); {
			if err := errors.Join(encode(b, it.Key()), encode(b, it.Value())); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("%v cannot be encoded", v.Type())
	}
	return nil
}

func encodeList(b *bytes.Buffer, v reflect.Value) error {
	for i := range v.Len() {
		if err := encode(b, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func decode(r *bytes.Reader, v reflect.Value) error {
	if v.CanAddr() && v.Kind() == reflect.Struct && v.Type().Implements(binaryMarshaler) {
		n, err := size(r)
		if err != nil {
			return err
		}
		data := make([]byte, n)
		if _, err := io.ReadFull(r, data); err != nil {
			return err
		}
		u, ok := v.Addr().Interface().(encoding.BinaryUnmarshaler)
		if !ok {
			return fmt.Errorf("%v cannot be decoded", v.Type())
		}
		return u.UnmarshalBinary(data)
	}
	switch v.Kind() {
	case reflect.Bool:
		n, err := binary.ReadUvarint(r)
		v.SetBool(n == 1)
		return err
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := binary.ReadVarint(r)
		v.SetInt(n)
		return err
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := binary.ReadUvarint(r)
		v.SetUint(n)
		return err
	case reflect.Float32, reflect.Float64:
		var data [8]byte
		_, err := io.ReadFull(r, data[:])
		v.SetFloat(math.Float64frombits(binary.LittleEndian.Uint64(data[:])))
		return err
	case reflect.String:
		n, err := size(r)
		if err != nil {
			return err
		}
		data := make([]byte, n)
		_, err = io.ReadFull(r, data)
		v.SetString(string(data))
		return err
	case reflect.Struct:
		return fields(v, func(f reflect.Value) error { return decode(r, f) })
	case reflect.Array:
		return decodeList(r, v)
	case reflect.Slice, reflect.Map, reflect.Pointer:
		return decodeReference(r, v)
	}
	return fmt.Errorf("%v cannot be decoded", v.Type())
}

// decodeReference decodes a slice, map or pointer; 0 is nil.
func decodeReference(r *bytes.Reader, v reflect.Value) error {
	n, err := binary.ReadUvarint(r)
	if err != nil || n == 0 {
		return err
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		return decode(r, v.Elem())
	}
	n--
	if n > uint64(r.Len()) && v.Type().Elem().Size() > 0 {
		return fmt.Errorf("%d elements in %d bytes", n, r.Len())
	}
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), int(n), int(n)))
		return decodeList(r, v)
	}
	v.Set(reflect.MakeMap(v.Type()))
	for range n {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		if err := decode(r, key); err != nil {
			return err
		}
		if err := decode(r, value); err != nil {
			return err
		}
		v.SetMapIndex(key, value)
	}
	return nil
}

func decodeList(r *bytes.Reader, v reflect.Value) error {
	for i := range v.Len() {
		if err := decode(r, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// size reads a number of bytes that follow.
func size(r *bytes.Reader) (int, error) {
	n, err := binary.ReadUvarint(r)
	if err == nil && n > uint64(r.Len()) {
		err = io.ErrUnexpectedEOF
	}
	return int(n), err
}
