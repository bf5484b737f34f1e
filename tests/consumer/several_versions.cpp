/// \file Three differently built kvpages in one program: each answers for itself.
int shipped_unit();
int checked_unit();
int newer_unit();

int main() {
  const int shipped = shipped_unit();
  return shipped % 100 == 3 && checked_unit() == shipped && newer_unit() == shipped + 100 ? 0 : 1;
}
