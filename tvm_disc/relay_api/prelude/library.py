"""Text of the standard modules that ``import_from_std`` adds, written for this project."""

from __future__ import annotations

LISTS = """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil, }
type Option[A] { Some(A), None, }
type Tree[A] { Rose(A, List[Tree[A]]), }

// Higher-order functions.
def @id[A](%x: A) -> A { %x }
def @compose[A, B, C](%f: fn (B) -> C, %g: fn (A) -> B) -> fn (A) -> C {
  fn (%x: A) -> C { %f(%g(%x)) }
}
def @flip[A, B, C](%f: fn (A, B) -> C) -> fn (B, A) -> C {
  fn (%b: B, %a: A) -> C { %f(%a, %b) }
}
def @iterate[A](%f: fn (A) -> A, %n: int32) -> fn (A) -> A {
  if (equal(%n, 0)) { @id } else { @compose(%f, @iterate(%f, subtract(%n, 1))) }
}

// Elements of a list; undefined for an empty list.
def @hd[A](%xs: List[A]) -> A { match? (%xs) { Cons(%x, _) => { %x }, } }
def @tl[A](%xs: List[A]) -> List[A] { match? (%xs) { Cons(_, %rest) => { %rest }, } }
def @nth[A](%xs: List[A], %n: int32) -> A {
  if (equal(%n, 0)) { @hd(%xs) } else { @nth(@tl(%xs), subtract(%n, 1)) }
}
def @update[A](%xs: List[A], %n: int32, %v: A) -> List[A] {
  if (equal(%n, 0)) { Cons(%v, @tl(%xs)) }
  else { Cons(@hd(%xs), @update(@tl(%xs), subtract(%n, 1), %v)) }
}

// Folds from the left and from the right.
def @foldl[A, B](%f: fn (A, B) -> A, %acc: A, %xs: List[B]) -> A {
  match (%xs) {
    Cons(%x, %rest) => { @foldl(%f, %f(%acc, %x), %rest) },
    Nil => { %acc },
  }
}
def @foldr[A, B](%f: fn (A, B) -> B, %acc: B, %xs: List[A]) -> B {
  match (%xs) {
    Cons(%x, %rest) => { %f(%x, @foldr(%f, %acc, %rest)) },
    Nil => { %acc },
  }
}
def @foldr1[A](%f: fn (A, A) -> A, %xs: List[A]) -> A {
  match? (%xs) {
    Cons(%x, Nil) => { %x },
    Cons(%x, %rest) => { %f(%x, @foldr1(%f, %rest)) },
  }
}
def @sum(%xs: List[int32]) -> int32 {
  @foldl(fn (%a: int32, %b: int32) -> int32 { add(%a, %b) }, 0, %xs)
}
def @length[A](%xs: List[A]) -> int32 {
  @foldl(fn (%n: int32, %x: A) -> int32 { add(%n, 1) }, 0, %xs)
}

// Functions from lists to lists.
def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) {
    Cons(%x, %rest) => { Cons(%f(%x), @map(%f, %rest)) },
    Nil => { Nil },
  }
}
def @filter[A](%f: fn (A) -> bool, %xs: List[A]) -> List[A] {
  match (%xs) {
    Cons(%x, %rest) => {
      if (%f(%x)) { Cons(%x, @filter(%f, %rest)) } else { @filter(%f, %rest) }
    },
    Nil => { Nil },
  }
}
def @concat[A](%xs: List[A], %ys: List[A]) -> List[A] {
  match (%xs) {
    Cons(%x, %rest) => { Cons(%x, @concat(%rest, %ys)) },
    Nil => { %ys },
  }
}
def @zip[A, B](%xs: List[A], %ys: List[B]) -> List[(A, B)] {
  match (%xs) {
    Cons(%x, %rest) => {
      match (%ys) {
        Cons(%y, %others) => { Cons((%x, %y), @zip(%rest, %others)) },
        Nil => { Nil },
      }
    },
    Nil => { Nil },
  }
}
def @rev[A](%xs: List[A]) -> List[A] {
  @foldl(fn (%done: List[A], %x: A) -> List[A] { Cons(%x, %done) }, Nil, %xs)
}
// The result is in reverse order: the result of the last element comes first.
def @map_accuml[A, B, C](%f: fn (A, B) -> (A, C), %acc: A, %xs: List[B]) -> (A, List[C]) {
  let %push = fn (%state: (A, List[C]), %x: B) -> (A, List[C]) {
    let %step = %f(%state.0, %x);
    (%step.0, Cons(%step.1, %state.1))
  };
  @foldl(%push, (%acc, Nil), %xs)
}
def @map_accumr[A, B, C](%f: fn (A, B) -> (A, C), %acc: A, %xs: List[B]) -> (A, List[C]) {
  match (%xs) {
    Cons(%x, %rest) => {
      let %others = @map_accumr(%f, %acc, %rest);
      let %step = %f(%others.0, %x);
      (%step.0, Cons(%step.1, %others.1))
    },
    Nil => { (%acc, Nil) },
  }
}

// Lists from a seed: a step returns the next seed and an element.
def @unfoldr[A, B](%f: fn (A) -> Option[(A, B)], %seed: A) -> List[B] {
  match (%f(%seed)) {
    Some(%step) => { Cons(%step.1, @unfoldr(%f, %step.0)) },
    None => { Nil },
  }
}
def @unfoldl[A, B](%f: fn (A) -> Option[(A, B)], %seed: A) -> List[B] {
  @rev(@unfoldr(%f, %seed))
}

// Trees with any number of branches per node.
def @tmap[A, B](%f: fn (A) -> B, %t: Tree[A]) -> Tree[B] {
  match (%t) {
    Rose(%x, %branches) => {
      Rose(%f(%x), @map(fn (%b: Tree[A]) -> Tree[B] { @tmap(%f, %b) }, %branches))
    },
  }
}
def @size[A](%t: Tree[A]) -> int32 {
  match (%t) {
    Rose(_, %branches) => {
      add(1, @sum(@map(fn (%b: Tree[A]) -> int32 { @size(%b) }, %branches)))
    },
  }
}
"""

NUMBERS = """#[version = "0.0.5"]
type nat { z, s(nat), }

def @nat_add(%a: nat, %b: nat) -> nat {
  match (%a) { s(%less) => { s(@nat_add(%less, %b)) }, z => { %b }, }
}
def @nat_double(%a: nat) -> nat {
  match (%a) { s(%less) => { s(s(@nat_double(%less))) }, z => { z }, }
}
def @nat_iterate[A](%f: fn (A) -> A, %n: nat) -> fn (A) -> A {
  match (%n) {
    s(%less) => { let %before = @nat_iterate(%f, %less); fn (%x: A) -> A { %f(%before(%x)) } },
    z => { fn (%x: A) -> A { %x } },
  }
}
"""

STANDARD = {"prelude.rly": LISTS, "nat.rly": NUMBERS}

__all__ = ["STANDARD"]
