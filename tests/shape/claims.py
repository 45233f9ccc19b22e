"""Claims about shape arithmetic: `facts => claim`, most of them from real models.

One line is one claim. Facts are separated by `;`; `x := e` gives a name to an expression. What is
true is never written down: `truth` evaluates every combination of small values. A claim that
holds for all of them is True, for none False, and otherwise open, and then only None is right.
"""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

import numpy as np

CLAIMS = """
# BERT: flatten, heads, attention, position table
=> b*s*768 == b*s*12*64
=> b*s*(12*64) == b*12*s*64
=> b*12*s*s == (b*12)*s*s
m := b*s => m*768 == b*s*768
m := b*s; m2 := b*s => m == m2
m := b*s; h := m*12 => h*64 == b*s*768
t == s => b*s*768 == b*t*768
t == s; b2 == b => b*s == b2*t
b*s == c*t; c == b; b >= 1 => s == t
b*s == c*t; c == b => s == t
b*s == b*t => s == t
b*s == b*t; b != 0 => s == t
b*s == b*t; b > 0 => t == s
b*s*12 == b*t*12; 1 <= b => s == t
s <= 64 => min(s, 64) == s
s <= 65 => min(s, 64) == s
=> min(s, 64) == s
=> min(s, 64) <= s
=> min(s, 64) <= 64
p := min(s, 64); s <= 64 => b*p*768 == b*s*768
p := min(s, 64); s <= 64 => p == s
p := min(s, 512); s <= 64 => p == s
p := min(2147483647, s) - min(0, s); s <= 64 => p == s
p := min(s, 64); p == s => s <= 64
s <= 64 => max(s, 64) == 64
=> max(s, 1) >= 1
s >= 1 => max(s, 1) == s
=> (b*s*768) // 768 == b*s
=> (b*s*768) // 64 == b*s*12
b >= 1; s >= 1 => (b*s*768) // (b*s) == 768
=> (b*s*768) // (b*s) == 768
b >= 1 => (b*s*768) // b == s*768
s >= 1 => (b*12*s*64) // (s*64) == b*12
q := (b*s*768) // (b*768); b >= 1 => q == s
q := (b*s*768) // (s*12*64); s != 0 => q == b
m := b*s; n := m*768; k := n // 768 => k == b*s
=> (b*s*768) % 768 == 0
=> (b*s*768) % 64 == 0
=> (b*s*768) % 512 == 0
s % 2 == 0 => (b*s*768) % 512 == 0
=> b*s*768 >= 0
1 <= b <= 64; 1 <= s <= 64 => b*s <= 4096
1 <= b <= 64; 1 <= s <= 64 => b*s <= 4095
1 <= b <= 64; 1 <= s <= 64 => b*s*768 < 2147483648
b >= 1; s >= 1 => b*s >= 1
b >= 1; s >= 1 => b*s >= s
s >= 1 => b*s >= b
=> b*s >= s
=> b*12*s*64 == b*s*767
b >= 1; s >= 1 => b*12*s*64 == b*s*767
=> b*12 != 1
=> s*64 != 1
b != 1 => b*12 != 0
b >= 1 => b*12 != 0
t == s; u == t; v == u => v == s
t == s; u == s => b*t*u == b*s*s
ids == s; mask == ids; typ == mask => typ*b == s*b
ids == s; mask == s + 1 => ids == mask
ids == s; mask == s + 1 => ids < mask
# GPT-2: past and present
t := past + s => t >= s
t := past + s => t >= past
t := past + s => t - past == s
t := past + s; past == 0 => t == s
t := past + s; s >= 1 => t > past
t := past + s; s >= 1 => t != 0
t := past + s => t == s
t := past + s; past >= 1 => t == s
t := past + s => b*12*t*64 == b*12*past*64 + b*12*s*64
t := past + s => b*t*768 - b*past*768 == b*s*768
t := past + s; t <= 64 => s <= 64
t := past + s; t <= 64 => past <= 64
t := past + s; t <= 64 => min(t, 64) - min(past, 64) == s
t := past + s => min(t, 64) - min(past, 64) <= s
t := past + s => min(t, 64) - min(past, 64) >= 0
t := past + s; t <= 1024; s >= 1 => past <= 1023
t == past + s; u == past + s => t == u
t == past + s => s <= t
t == past + s; s == 1 => t == past + 1
t == past + s; s == 1 => past < t
t == past + s; past == 3*s => t == 4*s
t == past + s; past == 3*s => t % 4 == 0
t == s + 1; u == t + 1 => u == s + 2
t == s + 1; u == t + 1 => u - s == 2
t == s + 1; u == t + 1 => u <= s
=> max(past + s, s) == past + s
=> max(past, s) + min(past, s) == past + s
=> (past + s)*64 == past*64 + s*64
=> (past + s)*(past + s) == past*past + 2*past*s + s*s
=> (b*(past + s)*64) // 64 == b*past + b*s
=> (8*past + 8*s) // 8 == past + s
=> (8*past + 8*s + 7) // 8 == past + s
=> (8*past + 8*s + 8) // 8 == past + s
=> (past + s + 1)*b - b == (past + s)*b
b >= 1 => (b*past + b*s) // b == past + s
=> (b*past + b*s) // b == past + s
=> s*3*768 == s*2304
x := s*2304; q := x // 3 => q == s*768
# ViT: patches and class token
n := (h // 16)*(w // 16) + 1 => n >= 1
n := (h // 16)*(w // 16) + 1 => n != 0
n := (h // 16)*(w // 16) + 1; h >= 16; w >= 16 => n >= 2
n := (h // 16)*(w // 16) + 1; h >= 16; w >= 16 => n != 1
n := (h // 16)*(w // 16) + 1 => n != 1
n := (h // 16)*(w // 16) => b*n*768 == b*768*(w // 16)*(h // 16)
n := (h // 16)*(w // 16) => n*768 == 768*h*w // 256
h % 16 == 0; w % 16 == 0 => (h // 16)*(w // 16)*256 == h*w
h % 16 == 0 => (h // 16)*16 == h
=> (h // 16)*16 == h
=> (h // 16)*16 <= h
=> h - (h // 16)*16 < 16
=> h - (h // 16)*16 == h % 16
h % 16 == 0 => (h + 15) // 16 == h // 16
h % 16 == 0 => (h - 16) // 16 + 1 == h // 16
=> (h - 16) // 16 + 1 == h // 16
h % 32 == 0 => h % 16 == 0
h % 16 == 0 => h % 32 == 0
h % 4 == 0; h % 6 == 0 => h % 12 == 0
h % 8 == 0; h % 3 == 0 => h % 24 == 0
h % 8 == 0 => (h // 8) % 2 == 0
h % 16 == 0 => (h // 8) % 2 == 0
h % 16 == 0 => (h // 2) % 8 == 0
h % 16 == 0; w % 16 == 0 => (h*w) % 256 == 0
h % 16 == 0; w % 16 == 0 => (h + w) % 16 == 0
h % 16 == 0; w % 8 == 0 => (h + w) % 16 == 0
h % 16 == 0; w % 8 == 0 => (h - w) % 8 == 0
h % 8 == 0 => (h + 1) % 8 == 1
h % 8 == 0 => (h + 1) % 8 == 0
(h + 1) % 8 == 0 => h % 8 == 7
h % 8 == 0; 1 <= h => h >= 8
h % 8 == 0; h <= 15; 1 <= h => h == 8
h % 8 == 3 => h >= 3
h % 8 == 3 => h % 4 == 3
h % 8 == 3 => h != 8
h == w; h % 16 == 0 => w % 16 == 0
h == w => (h // 16)*(w // 16) == (h // 16)*(h // 16)
g := h // 16 => b*g*g*768 == b*768*g*g
# Convolution and pooling chains
o := (h + 2 - 3) // 2 + 1 => o == (h + 1) // 2
o := (h - 1) // 2 + 1 => o == (h + 1) // 2
o := (h - 1) // 2 + 1; h >= 1 => o >= 1
o := (h - 1) // 2 + 1; h >= 1 => o <= h
o := (h - 1) // 2 + 1 => o <= h
o := (h - 1) // 2 + 1 => 2*o >= h
o := (h - 1) // 2 + 1 => 2*o <= h + 1
o := (h - 1) // 2 + 1 => 2*o == h
o := (h - 1) // 2 + 1; h % 2 == 0 => 2*o == h
o := (h - 1) // 2 + 1; h % 2 == 0 => o == h // 2
o := (h - 1) // 2 + 1; o2 := (o - 1) // 2 + 1 => o2 == (h + 3) // 4
o := (h - 1) // 2 + 1; o2 := (o - 1) // 2 + 1; o3 := (o2 - 1) // 2 + 1 => o3 == (h + 7) // 8
o := (h - 1) // 2 + 1; o2 := (o - 1) // 2 + 1; h % 4 == 0 => o2*4 == h
o := h // 2; o2 := o // 2; o3 := o2 // 2 => o3 == h // 8
o := h // 2; o2 := o // 2 => o2 == h // 4
o := h // 2; o2 := o // 3 => o2 == h // 6
o := h // 2; o2 := o // 2 => o2*4 == h
o := h // 2; o2 := o // 2; h % 4 == 0 => o2*4 == h
o := h // 2; u := o*2 => u <= h
o := h // 2; u := o*2; h % 2 == 0 => u == h
o := h // 2; u := o*2 => u == h
o := (h + 2*p - 3) // 1 + 1; p == 1 => o == h
o := (h + 2*p - 5) // 1 + 1; p == 2 => o == h
o := (h + 2*p - 3) + 1; p == 1 => o == h
o := h - 2 => o < h
o := h - 2; h >= 3 => o >= 1
o := (h - 2) // 2 + 1 => o == h // 2
o := (h + 6 - 7) // 2 + 1 => o == (h + 1) // 2
o := (h - 3) // 2 + 1; h >= 3 => o >= 1
o := (h - 3) // 2 + 1; h >= 3 => o < h
o := (h + 2 - 3) // 2 + 1; v := (w + 2 - 3) // 2 + 1; h == w => o*v == o*o
o := (h + 2 - 3) // 2 + 1; v := (w + 2 - 3) // 2 + 1; h == w => o == v
o := (h - 1)*2 - 2 + 4 => o == 2*h
o := (h - 1)*2 + 3 - 2 + 1 => o == h*2
o := (h - 1)*2 + 2 => o // 2 == h
o := h*2; u := o // 2 => u == h
o := h*2 => o % 2 == 0
h >= 8 => h // 8 >= 1
h >= 8 => h // 8 != 0
h <= 64 => h // 8 <= 8
h <= 63 => h // 8 <= 7
h <= 64 => h // 8 <= 7
h <= 7 => h // 8 == 0
h <= 7 => h % 8 == h
8 <= h <= 15 => h // 8 == 1
h // 8 == 1 => h >= 8
h // 8 == 1 => h <= 15
h // 8 == 1 => h <= 14
=> -(-h // 8) == (h + 7) // 8
=> (h + 7) // 8 >= h // 8
=> (h + 7) // 8 <= h // 8 + 1
=> (h + 7) // 8 == h // 8
=> h // 8 <= h // 4
=> h // 2 <= h
h >= 1 => h // 2 < h
=> h // 2 < h
h <= w => h // 2 <= w // 2
h <= w => (h - 1) // 2 + 1 <= (w - 1) // 2 + 1
b >= 1; h >= 2 => b*(h // 2) >= 1
=> ((h + 1) // 2)*2 >= h
=> ((h + 1) // 2 + 1) // 2 == (h + 3) // 4
# Split halves, tiles, padding
=> s // 2 + (s - s // 2) == s
=> s // 2 + (s + 1) // 2 == s
=> s - (s + 1) // 2 == s // 2
=> (s + 1) // 2 >= s - (s + 1) // 2
=> (s + 1) // 2 - s // 2 <= 1
=> (s + 1) // 2 - s // 2 == s % 2
s % 2 == 0 => (s + 1) // 2 == s // 2
s % 2 == 0 => s // 2 + s // 2 == s
=> s // 2 + s // 2 == s
=> s // 3 + (s + 1) // 3 + (s + 2) // 3 == s
=> min(2, s) + max(s - 2, 0) == s
=> min(k, s) + max(s - k, 0) == s
=> max(s - 2, 0) <= s
s >= 2 => max(s - 2, 0) == s - 2
s >= 2 => min(2, s) == 2
t := (s + 7) // 8*8 => t >= s
t := (s + 7) // 8*8 => t < s + 8
t := (s + 7) // 8*8 => t <= s + 7
t := (s + 7) // 8*8 => t == s
t := (s + 7) // 8*8 => t % 8 == 0
t := (s + 7) // 8*8; s % 8 == 0 => t == s
t := (s + 7) // 8*8 => t - s <= 7
t := (s + 7) // 8*8 => t - s >= 0
t := (s + 7) // 8*8; s >= 1 => t >= 8
t := (s + 7) // 8*8; s <= 64 => t <= 64
t := (s + 7) // 8*8; s <= 60 => t <= 63
t := (s + 63) // 64; s <= 64; s >= 1 => t == 1
t := (s + 63) // 64; s <= 64 => t <= 1
t := s // 8*8 => s - t < 8
t := s // 8*8 => s - t == s % 8
t := s // 8*8; r := s - t => r*b + t*b == s*b
t := s // 8*8; r := s - t; s % 8 == 0 => r == 0
t := s // 8*8; r := s - t => r <= 6
t := s // 6*6; r := s - t => r <= 5
=> (s // 8)*8 + s % 8 == s
=> (s // k)*k + s % k == s
k >= 1 => s % k < k
k >= 1 => s % k >= 0
k >= 1 => (s // k)*k <= s
k >= 1 => s % k <= s
=> s % 8 <= s
=> s % 8 < 8
=> s % 8 <= 6
k >= 1 => (s*k) % k == 0
k >= 1 => (s*k + k - 1) // k == s
k >= 2 => (s*k + 1) // k == s
k >= 1 => (s*k + 1) // k == s
k >= 1 => (s*k + k) // k == s + 1
k >= 1; s < k => s // k == 0
k >= 1; s < k => s % k == s
k >= 1; s <= k => s // k <= 1
k >= 1 => (s // k) // 2 == s // (2*k)
k >= 1 => (s + k - 1) // k*k >= s
k >= 1; s >= 1 => (s + k - 1) // k >= 1
=> (4*s) % 8 == 4*(s % 2)
=> (4*s + 2) // 8 == s // 2
=> (6*s) // 4 == (3*s) // 2
=> (2*s) // 4 == s // 2
=> (2*s + 1) // 2 == s
=> (2*s + 1) % 2 == 1
=> 2*s + 1 != 2*t
=> 2*s != 4*t + 1
=> 6*s + 9*t != 4
=> 2*s != t
# Concat, slice, pad
c := n + m => c >= n
c := n + m; n >= 1 => c != 0
c := n + m; n >= 1; m >= 1 => c != 1
c := n + m; n >= 1; m >= 1 => c >= 2
c := n + m; n == m => c == 2*n
c := n + m; n == m => c % 2 == 0
c := n + m => c == m + n
c := n + m => c*8 == n*8 + m*8
c := n + m; d := c + k => d == n + (m + k)
c := n + m; d := c - m => d == n
c := n + m; d := c - m; d2 := d*4 => d2 == 4*n
c := n + 2; d := c - 2 => d == n
c == n + m; c == 8; n == 3 => m == 5
c == n + m; c == n => m == 0
c == n + m; c <= n => m == 0
n + m == 0 => n == 0
n + m == 0 => m == 0
n + m <= 1; n == 1 => m == 0
n*m == 0 => n == 0
n*m == 0; m >= 1 => n == 0
n*m == 8 => n != 0
n*m == 8 => m <= 8
n*m == 8; n == 2 => m == 4
n*m == 7 => n <= 7
n*m >= 1 => n >= 1
n*m != 0 => m != 0
e := min(n, 5) - min(1, n) => e >= 0
e := min(n, 5) - min(1, n) => e <= 4
e := min(n, 5) - min(1, n); n >= 5 => e == 4
e := n - min(1, n); n >= 1 => e == n - 1
e := n - min(max(n - 1, 0), n); n >= 1 => e == 1
e := n - min(max(n - 1, 0), n) => e <= 1
e := (n + 1) // 2 => e*2 >= n
=> min(n, m) <= max(n, m)
=> min(n, m) == min(m, n)
=> min(n, min(m, k)) == min(min(k, n), m)
=> max(n, max(m, n)) == max(m, n)
=> min(n + 2, m + 2) == min(n, m) + 2
=> min(4*n, 4*m) == 4*min(n, m)
=> min(k*n, k*m) == k*min(n, m)
=> max(k*n, k*m) == k*max(n, m)
=> max(n, m) - n >= 0
=> max(n, m) == n
n >= m => max(n, m) == n
n > m => min(n, m) == m
n >= m => min(n, m) == n
=> max(n, m) <= n + m
=> min(n, m)*2 <= n + m
=> max(n, m)*2 >= n + m
=> max(min(n, m), n) == n
=> min(max(n, m), n) == n
=> max(min(n, 8), 1) <= 8
=> max(min(n, 8), 1) >= 1
=> max(n, 1) != 0
=> min(n, 1) <= 1
n >= 1 => min(n, 1) == 1
# Reshape with products, flatten chains
a*b == c*d => c*d == a*b
a*b == c*d => a*b*8 == 8*d*c
a*b == c*d; c*d == e => a*b == e
a*b == c; c*d == e => a*b*d == e
a*b == c => a*b*d == c*d
h*d == 768 => b*s*h*d == b*s*768
h*d == 768 => b*h*s*d == 768*s*b
h*d == 768; h == 12 => d == 64
h*d == 768; h == 12 => b*12*s*d == b*s*768
h*d == 768 => h <= 768
h*d == 768 => h != 0
h*d == 768; d == 64 => h == 12
h*d == m; h == 12; m == 768 => d == 64
b*s == m; m*768 == t => b*s*768 == t
b*s == m; m == k*8 => b*s == 8*k
b*s == m; k*8 == m => (b*s) % 8 == 0
n*c == n*d; n >= 1 => c == d
n*c == n*d; c != d => n == 0
n*c == n*d; n == 8 => c == d
2*n == 2*m => n == m
2*n == 3*m => n % 3 == 0
2*n == 3*m => m % 2 == 0
2*n == 3*m; m == 2 => n == 3
4*n == 6*m => n % 3 == 0
3*n == 3*m + 3 => n == m + 1
n*8 == m; m == 64 => n == 8
n == 2*m; m == 2*k => n == 4*k
n == 2*m; m == 2*k => n % 4 == 0
n == 2*m; m == 2*k; k >= 1 => n >= 4
n == 2*m => n >= m
n == 2*m; m >= 1 => n > m
n == m*k; k >= 1 => n % k == 0
n == m*k; k >= 1 => n // k == m
n == m*k => n == k*m
n == m*k; m == 0 => n == 0
n == m*k; n >= 1 => k >= 1
x := n*m; y := x*k; z := k*n => y == z*m
x := n*m; y := x // 4 => y*4 == x
x := n*m; y := x // 4; n % 4 == 0 => y*4 == x
x := n*m; y := x // 4; n % 2 == 0; m % 2 == 0 => y*4 == x
=> (n*8*m) // 8 == n*m
=> (n*m*8) // (4*2) == m*n
# Ranges, orders and chains
n <= m; m <= k => n <= k
n <= m; m <= k; k <= n => n == m
n < m; m < k => n + 2 <= k
n < m; m < k => n < k
n < m => m <= n
n < m => m >= 1
n < m => m != 0
n <= m => n < m
n <= m => b*n <= b*m
n <= m; k <= b => n*k <= m*b
n <= m; m <= 8 => n <= 8
n <= m; m <= 8 => n <= 7
n <= m; n >= 5 => m >= 5
n <= m; m <= n => n == m
n <= m; n != m => n < m
n >= 1; n <= 1 => n == 1
n != 0 => n >= 1
n != 0; n != 1 => n >= 2
n >= 1; n != 1 => n >= 2
n <= 8; n != 8 => n <= 7
n >= 2 => n != 1
n == 5 => n != 1
n == 5; m == n + 2 => m == 7
n == 5; m == n + 2 => m == 8
n == 5; m == n + 2 => n*m == 35
n + 1 <= m => n < m
n >= 8 => n*n >= 64
n >= 3; m >= 2 => (n - 1)*(m - 1) >= 2
n >= 1; m >= 1 => n*m >= n + m - 1
n >= 2; m >= 2 => n*m >= n + m
n <= 8; m <= 8 => n*m <= 64
n <= 8; m <= 8 => n*m <= 63
n <= 8 => n*m <= 8*m
=> n >= 0
=> n >= 1
=> n + 1 >= 1
=> n + 1 != 0
=> n - 1 < n
=> n == n + 1
=> n*n >= n
=> n*n >= 0
=> n - m <= n
=> 2*n + 1 > n
=> n*m + n >= n
=> (n + 1)*m >= m
=> (n - m)*(n - m) == n*n - 2*n*m + m*m
=> (n + m)*(n - m) == n*n - m*m
n < m; m < k => k <= n
n >= 5; m <= 4 => n <= m
n >= 5; m <= 4 => n == m
n == 2*m => n % 2 == 1
n == 2*m + 1 => n % 2 == 0
n == 2*m + 1 => n == 0
=> n*2 == m*2 + 1
=> 4*n + 2 == 8*m
=> max(n, m) < n
=> min(n, m) > m
=> n // 8 > n
=> n % 8 >= 8
=> n % 8 == 9
=> (n + 7) // 8*8 < n
=> (n + 7) // 8*8 >= n + 8
=> max(n, 1) == 0
=> n + m + 1 == 0
=> (n + 1)*(m + 1) == 0
n >= 1; m >= 1 => n*m == 0
n <= m; b >= 1; k == m + 1 => b*k <= b*n
h >= 16; w >= 16 => (h // 16)*(w // 16) == 0
t == past + s; s >= 1 => t <= past
s <= 64 => min(s, 64) > s
h % 16 == 0 => h == 8
h % 16 == 0 => h % 8 == 4
b >= 2 => b*s + 1 == 0
# Hard: where a stronger prover would still be needed
=> n*n*n >= n*n
=> (n*(n + 1)) % 2 == 0
=> (n*(n + 1)*(n + 2)) % 3 == 0
=> n*n % 4 != 2
=> n*n % 4 != 3
=> n*n + m*m >= 2*n*m
n*n == m*m => n == m
n*m == 6; n > m; m > 1 => n == 3
n*m == 9; n == m => n == 3
=> (n // 4)*(m // 4) <= (n*m) // 16
=> (n + m) // 2 >= min(n, m)
=> (n + m) // 2 <= max(n, m)
=> n // 2 + m // 2 <= (n + m) // 2
=> n // 2 + m // 2 + 1 >= (n + m) // 2
k >= 1 => n // k + m // k <= (n + m) // k
=> (n % 8 + m % 8) % 8 == (n + m) % 8
=> ((n % 8)*(m % 8)) % 8 == (n*m) % 8
=> max(n, max(m, k)) + min(n, min(m, k)) <= n + m + k
=> min(n, m) // 2 == min(n // 2, m // 2)
=> max(n // 2, m // 2) == max(n, m) // 2
=> (n // 3) // 5 == (n // 5) // 3
=> n - (n // 16)*16 == n % 16
=> n % 16 % 8 == n % 8
=> n // 16 == (n // 8) // 2
=> 8*(n // 16) <= n // 2
"""


class Claim(NamedTuple):
    """One line of the table."""

    section: str
    lets: tuple[tuple[str, str], ...]
    facts: tuple[str, ...]
    claim: str

    def __str__(self) -> str:
        given = [f"{n} := {e}" for n, e in self.lets] + list(self.facts)
        return f"{'; '.join(given)} => {self.claim}".strip()


def _parse(text: str) -> list[Claim]:
    out, section = [], ""
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("#"):
            section = line[1:].strip()
            continue
        given, _, claim = line.partition("=>")
        parts = [p.strip() for p in given.split(";") if p.strip()]
        lets = tuple(
            (n.strip(), e.strip()) for n, _, e in (p.partition(":=") for p in parts if ":=" in p)
        )
        facts = tuple(p for p in parts if ":=" not in p)
        out.append(Claim(section, lets, facts, claim.strip()))
    return out


TABLE = _parse(CLAIMS)

_NAME = re.compile(r"[a-z]\w*")
_RELATION = re.compile(r"(==|!=|<=|>=|<|>)")


def free_names(claim: Claim) -> list[str]:
    """The symbols whose values are enumerated."""
    texts = [e for _, e in claim.lets] + [*claim.facts, claim.claim]
    names = dict.fromkeys(n for t in texts for n in _NAME.findall(t))
    return [n for n in names if n not in ("min", "max") and n not in dict(claim.lets)]


class Column:
    """Values with a mask of where they are defined."""

    def __init__(self, v: np.ndarray, ok: np.ndarray) -> None:
        self.v, self.ok = v, ok

    def join(self, other: object, f: object) -> Column:
        """`f` of two columns."""
        o = other if isinstance(other, Column) else Column(np.asarray(other), np.asarray(True))
        return Column(f(self.v, o.v), self.ok & o.ok)  # type: ignore[operator]

    def __add__(self, o: object) -> Column:
        return self.join(o, np.add)

    def __radd__(self, o: object) -> Column:
        return self.join(o, np.add)

    def __sub__(self, o: object) -> Column:
        return self.join(o, np.subtract)

    def __rsub__(self, o: object) -> Column:
        return self.join(o, lambda a, b: b - a)

    def __mul__(self, o: object) -> Column:
        return self.join(o, np.multiply)

    __rmul__ = __mul__

    def __neg__(self) -> Column:
        return Column(-self.v, self.ok)

    def __floordiv__(self, o: object) -> Column:
        d = o if isinstance(o, Column) else Column(np.asarray(o), np.asarray(True))
        safe = np.where(d.v == 0, 1, d.v)
        return Column(np.floor_divide(self.v, safe), self.ok & d.ok & (d.v != 0))

    def __mod__(self, o: object) -> Column:
        return self - (self // o) * o


def _extreme(f: object) -> object:
    def call(a: object, b: object) -> object:
        if isinstance(a, Column):
            return a.join(b, f)
        return b.join(a, f) if isinstance(b, Column) else f(a, b)  # type: ignore[operator]

    return call


def _relation(text: str, scope: dict[str, object]) -> tuple[np.ndarray, np.ndarray]:
    parts = _RELATION.split(text)
    size = scope["_one"]
    assert isinstance(size, Column)
    truth, ok = np.ones_like(size.ok), size.ok
    tests = {
        "==": np.equal, "!=": np.not_equal, "<=": np.less_equal, "<": np.less,
        ">=": np.greater_equal, ">": np.greater,
    }  # fmt: skip
    sides = [size * 0 + eval(p, {}, scope) for p in parts[::2]]
    for a, op, b in zip(sides, parts[1::2], sides[1:], strict=False):
        truth = truth & tests[op](a.v, b.v)
        ok = ok & a.ok & b.ok
    return truth, ok


def truth(claim: Claim) -> tuple[bool | None, bool]:
    """`(t, total)`: t is True, False, or None where it depends on the values; `total` is False
    where the facts allow a division by zero, which has no value: then the solver need not answer.
    """
    names = free_names(claim)
    values = {1: range(200), 2: range(66), 3: range(20)}.get(len(names), range(9))
    extra = {1: (512, 768, 1023, 1024, 1025), 2: (512, 768), 3: (63, 64, 65, 768)}
    points = sorted({*values, *extra.get(len(names), (12, 64, 768))})
    rows = np.array(list(itertools.product(points, repeat=len(names))), dtype=np.int64)
    yes = np.ones(len(rows), bool)
    scope: dict[str, object] = {n: Column(rows[:, i], yes) for i, n in enumerate(names)}
    scope |= {"_one": Column(np.ones(len(rows), np.int64), yes)}
    scope |= {"min": _extreme(np.minimum), "max": _extreme(np.maximum)}
    alive = yes
    for name, text in claim.lets:
        scope[name] = eval(text, {}, scope)
    for fact in claim.facts:
        held, ok = _relation(fact, scope)
        alive = alive & held & ok
    held, ok = _relation(claim.claim, scope)
    where = alive & ok
    assert where.any(), f"no values satisfy the facts of: {claim}"
    total = not (alive & ~ok).any()
    if held[where].all():
        return True, total
    return (None if held[where].any() else False), total
